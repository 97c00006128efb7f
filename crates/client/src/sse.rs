//! Server-sent events: the parser of the format, and streams over it.
//!
//! See https://html.spec.whatwg.org/multipage/server-sent-events.html. Does not
//! connect again: the caller knows from where.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use reqwest::Url;
use reqwest::header::ACCEPT;

use crate::send::Repeat;
use crate::{Client, ClientError};

/// A line longer than this is not ours: the server cuts logs into smaller chunks.
const LINE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) id: String,
}

#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_cr: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct LineTooLong;

impl Parser {
    fn push(&mut self, bytes: &[u8], events: &mut VecDeque<Event>) -> Result<(), LineTooLong> {
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.end_line(&String::from_utf8_lossy(&line), events);
                }
                _ if self.line.len() == LINE_BYTES_MAX => return Err(LineTooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    fn end_line(&mut self, line: &str, events: &mut VecDeque<Event>) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            // An id holds for the events after it, too.
            self.event.id.clone_from(&event.id);
            // An event without data only keeps the connection alive, unless it has a name.
            if std::mem::take(&mut self.has_data) || !event.name.is_empty() {
                events.push_back(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.event.name),
            "id" => value.clone_into(&mut self.event.id),
            // Comments and fields that are yet to be invented.
            _ => {}
        }
    }
}

struct Listening<F> {
    client: Client,
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: Parser,
    events: VecDeque<Event>,
    read: F,
}

impl Client {
    /// Opens a stream of events; `read` turns each into a value or, with `None`, ends it.
    pub(crate) async fn listen<T, F>(
        &self,
        url: Url,
        read: F,
    ) -> Result<impl Stream<Item = Result<T, ClientError>> + use<T, F>, ClientError>
    where
        F: FnMut(&Client, Event) -> Option<Result<T, ClientError>>,
    {
        self.listen_after(url, None, read).await
    }

    /// Listens to events after the one with this id.
    pub(crate) async fn listen_after<T, F>(
        &self,
        url: Url,
        last: Option<String>,
        read: F,
    ) -> Result<impl Stream<Item = Result<T, ClientError>> + use<T, F>, ClientError>
    where
        F: FnMut(&Client, Event) -> Option<Result<T, ClientError>>,
    {
        // Without the time limit of ordinary answers: this one has no end.
        let mut request = self.http[self.place()].get(url).header(ACCEPT, "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = self.send(request, Repeat::Safe).await?;
        let listening = Listening {
            client: self.clone(),
            bytes: response.bytes_stream().boxed(),
            parser: Parser::default(),
            events: VecDeque::new(),
            read,
        };
        Ok(futures_util::stream::try_unfold(listening, async |mut listening| {
            let next = listening.next().await?;
            Ok(next.map(|value| (value, listening)))
        }))
    }
}

impl<T, F> Listening<F>
where
    F: FnMut(&Client, Event) -> Option<Result<T, ClientError>>,
{
    async fn next(&mut self) -> Result<Option<T>, ClientError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return (self.read)(&self.client, event).transpose();
            }
            let Some(bytes) = self.bytes.next().await else {
                return Ok(None);
            };
            let bytes = bytes.map_err(|source| self.client.unreachable(source))?;
            self.parser
                .push(&bytes, &mut self.events)
                .map_err(|LineTooLong| self.client.bad_answer("an event without an end".to_owned()))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str, id: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn events_are_read_the_same_however_the_bytes_arrive() {
        let text = "data: a\nid: 1\n\n: alive\n\ndata:b\r\ndata: é\r\nevent: x\r\n\r\nevent: end\ndata\n\nnews: 1\n\n";
        let wanted = [event("", "a", "1"), event("x", "b\né", "1"), event("end", "", "1")];
        for step in 1..text.len() {
            let mut parser = Parser::default();
            let mut events = VecDeque::new();
            for chunk in text.as_bytes().chunks(step) {
                parser.push(chunk, &mut events).unwrap();
            }
            assert_eq!(events, wanted, "in steps of {step}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut parser = Parser::default();
        let mut events = VecDeque::new();
        assert_eq!(parser.push(&vec![b'a'; LINE_BYTES_MAX], &mut events), Ok(()));
        assert_eq!(parser.push(b"a", &mut events), Err(LineTooLong));
    }
}
