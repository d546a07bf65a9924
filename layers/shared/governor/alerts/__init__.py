"""The words of alerts: templates, and the one module that renders them."""
