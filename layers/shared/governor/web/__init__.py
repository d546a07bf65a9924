"""The approval page, which is rendered on the server. It must not know where its data comes
from."""
