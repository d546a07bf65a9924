"""The ports over AWS. A method without a docstring does what the port says that its class names."""
