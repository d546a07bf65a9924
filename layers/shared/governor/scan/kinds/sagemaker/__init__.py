"""Names, hardware and prices for all kinds of SageMaker. SageMaker's instances run in AWS's own
accounts: EC2 does not list them.
"""
