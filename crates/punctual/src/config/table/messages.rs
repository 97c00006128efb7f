//! Settings of what a worker calls and sends, and of the keys that it needs for it.

use punctual_worker::{Places, SlackWebhooks, TelegramBots, WebhookKeys};

use super::{WORKER_AND_DEV, WORKERS};
use crate::config::kind::{parsed, secret, secret_of, text};
use crate::config::setting::{setting, settings, unset};

settings! {
    read by WORKERS;

    Messages {
        http_allow: Places = parsed(Places::parse).described("ranges and hosts"),
            unset(
                "nothing",
                "What tasks may call besides the public internet: ranges and hosts separated by commas, such as \
                 10.0.0.0/8,*.corp.example",
            )
            .in_dev("127.0.0.0/8,::1").flag(WORKER_AND_DEV, "PLACES");
        http_deny: Places = parsed(Places::parse).described("ranges and hosts"),
            unset("nothing", "What tasks may not call, whatever else is allowed; written like http_allow")
                .flag(WORKER_AND_DEV, "PLACES");
        webhook_keys: WebhookKeys = secret_of(WebhookKeys::parse).described("name=whsec_…,…"),
            unset("", "Keys that sign webhooks, as name=whsec_… separated by commas; or @ and a file with them")
                .secret();
        slack_webhooks: SlackWebhooks = secret_of(SlackWebhooks::parse).described("name=https://…,…"),
            unset("", "Addresses of Slack channels, as name=https://… separated by commas; or @ and a file with them")
                .secret();
        telegram_bots: TelegramBots = secret_of(TelegramBots::parse).described("name=123456:…,…"),
            unset("", "Tokens of Telegram bots, as name=123456:… separated by commas; or @ and a file with them")
                .secret();
        telegram_api: String = text(),
            setting("https://api.telegram.org", "The address of the Telegram Bot API");
        smtp_url: Option<String> = text().or_none(),
            unset("no mail", "The server that sends mail: smtp://user@host:587 or smtps://user@host")
                .has_password();
        smtp_password: String = secret(),
            unset("", "The password of the user in smtp_url, or @ and a file with it").secret();
        smtp_from: String = text(),
            unset("", "The sender of mail, such as Punctual <jobs@example.com>");
    }
}
