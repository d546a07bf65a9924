"""Settings as the template gives them, for parts that are put together in a test."""

from __future__ import annotations

from governor.core.environment import Settings, parse_settings

VARIABLES = {
    "AWS_REGION": "us-east-1",
    "HUB_ACCOUNT_ID": "123456789012",
    "MEMBER_ROLE_NAME": "GpuGovernor-reader",
    "ACTOR_ROLE_ARN": "arn:aws:iam::123456789012:role/gpu-governor-us-east-1-actor",
    "TABLE_NAME": "state",
    "ALERT_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:alerts",
    "ALERT_KEY_ARN": "arn:aws:kms:us-east-1:123456789012:key/alerts",
    "OPENING_KEY_ARN": "arn:aws:kms:us-east-1:123456789012:key/openings",
    "ANSWER_KEY_ARN": "arn:aws:kms:us-east-1:123456789012:key/answers",
    "DELIVERY_KEY_ARN": "arn:aws:kms:us-east-1:123456789012:key/deliveries",
    "EXPIRY_KEY_ARN": "arn:aws:kms:us-east-1:123456789012:key/expiries",
    "ALARM_TOPIC_ARN": "arn:aws:sns:us-east-1:123456789012:alerts",
    "API_ID": "api1234567",
    "POWERTOOLS_METRICS_NAMESPACE": "gpu-governor",
    "POLICY_PARAMETER": "/gpu-governor/policy",
    "POLICY_BUCKET": "policies",
    "REMEDIATION_STATE_MACHINE_ARN": (
        "arn:aws:states:us-east-1:123456789012:stateMachine:remediation"
    ),
    "LINK_KEY_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:123456789012:secret:keys-abcdef",
    "CHANNEL_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:123456789012:secret:channels-abcdef",
    "UNDO_FUNCTION_NAME": "undo",
    "APPROVAL_BASE_URL": "https://api.example.com/",
    "CHECKPOINT_DOCUMENT_NAME": "",
    "DEAD_LETTER_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/events",
    "DELIVERY_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/deliveries",
    "DELIVERY_FAILURES_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/failures",
    "AUDIT_BUCKET": "audit",
    "REPORT_BUCKET": "reports",
    "USER_DATA_KEY_ARN": "arn:aws:kms:us-east-1:123456789012:key/data",
    "EMAIL_SENDER": "governor@example.com",
}
SIGN_IN = {"OIDC_ISSUER": "https://issuer.example.com", "OIDC_CLIENT_ID": "gpu-governor"}


def settings(**changes: str) -> Settings:
    """All of them, with these changed."""
    return parse_settings({**VARIABLES, **changes})
