//! Sends a mail by the worker's mail server.
//!
//! Every attempt at a job carries the same Message-ID, so that receivers can drop a repeat. A mail
//! counts as sent when the server took it; what becomes of it afterwards nobody hears.

mod message;
mod server;
mod smtp;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::{Failure, Last, Outcome};
use punctual_core::run::Email as Mail;
use punctual_core::task::Run;

use crate::dial::Outbound;
use crate::{Call, ExecutionEnd, Executor, clock, wrong_kind};
use smtp::{RefusedRecipient, Session};

pub use server::MailServer;

pub struct Email {
    outbound: Arc<Outbound>,
    server: MailServer,
}

impl Email {
    pub fn new(outbound: Arc<Outbound>, server: MailServer) -> Self {
        Self { outbound, server }
    }

    async fn send(&self, mail: &Mail, call: &Call) -> Result<Bytes, Failure> {
        let letter = message::write(mail, &self.server.from, call.job, call.input.as_ref(), clock::now())
            .map_err(crate::http::never_sent)?;
        let mut session = Session::open(&self.outbound, &self.server).await?;
        let sent = session.deliver(&letter.from, &letter.to, &letter.bytes).await;
        session.close().await;
        let sent = sent?;
        call.log.line(format!(
            "sent to {} of {}: {}",
            letter.to.len() - sent.refused.len(),
            letter.to.len(),
            sent.answer
        ));
        for RefusedRecipient { address, answer } in &sent.refused {
            call.log.line(format!("not sent to {address}: {answer}"));
        }
        if sent.refused.is_empty() {
            let output = serde_json::json!({ "message_id": letter.id, "to": letter.to, "answer": sent.answer });
            return Ok(Bytes::from(output.to_string()));
        }
        // Trying again would send it once more to those who have it.
        let missed: Vec<_> =
            sent.refused.iter().map(|refused| format!("{} ({})", refused.address, refused.answer)).collect();
        let (reached, all) = (letter.to.len() - sent.refused.len(), letter.to.len());
        let reason = format!("sent to {reached} of {all} addresses; refused: {}", missed.join(", "));
        Err(Failure { last: Last::Yes, ..Failure::new(reason) })
    }
}

#[async_trait]
impl Executor for Email {
    fn kind(&self) -> &'static str {
        "email"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["email".to_owned()]
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Email(mail) = &*call.run else {
            return wrong_kind(&call.run).into();
        };
        let outcome = tokio::select! {
            biased;
            sent = self.send(mail, &call) => match sent {
                Ok(output) => Outcome::Succeeded { output: Some(output) },
                Err(failure) => {
                    call.log.line(&failure.reason);
                    Outcome::Failed(failure)
                }
            },
            () = call.cancel.cancelled() => Outcome::Cancelled,
        };
        outcome.into()
    }
}
