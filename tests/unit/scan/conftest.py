"""Use cases ask for no more of the table than the roles of their functions allow."""

from tests.rights import only_what_the_role_allows

__all__ = ["only_what_the_role_allows"]
