"""Names, hardware and prices that all kinds of SageMaker share. SageMaker's instances run in AWS's
own accounts: EC2 does not list them.
"""
