"""Telling idle from busy: detectors are asked at a moment about what is known up to then, and nothing later.

Pure, deterministic and free of dependencies. Nothing here knows AWS, the policy document or the state table.
"""
