"""Messages to people outside the approval page: email, Slack, Teams, PagerDuty and signed webhooks.

    what is said        message.Message, message.Facts, message.Section, message.Table
    what became of it   message.Delivered, message.DeliveryRetryable, message.DeliveryRefused
    the Protocol        message.Channel
    email               email.EmailChannel over an email.MailService
    Slack, as an app    slack.SlackAppChannel with slack.SlackApi
    Slack, webhook      slack.SlackWebhookChannel
    Microsoft Teams     teams.TeamsChannel
    PagerDuty           pagerduty.PagerDutyChannel
    anybody else        webhook.WebhookChannel; receivers check with webhook.verify_webhook
    over HTTPS          transport.HttpsChannel, for all but mail
    answers from Slack  slack_actions.SlackActions

A caller asks `channel.takes(message)`, then `channel.send(message)`, and keeps `Delivered.thread` for the
next message of the episode on that channel. Senders send once: what `DeliveryRetryable` says is for a queue
to repeat, not before its `retry_after_seconds`.

Renderers are pure: a `Message` in, the channel's own document out. Nothing is imported here, so that a
function pays only for the channels it uses. Nothing here knows AWS, approvals' storage or the policy.
"""
