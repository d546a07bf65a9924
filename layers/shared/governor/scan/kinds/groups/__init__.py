"""Groups and fleets that keep accelerated instances running, whether those work or not.

They are information, and never waste: their instances are rows of their own, and idle ones among
them are counted there.
"""
