"""The state table in DynamoDB, and the stored form of records."""
