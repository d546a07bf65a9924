"""The approval page: rendered on the server, without scripts. It must not know where its data comes
from."""
