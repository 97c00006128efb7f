use super::*;
use punctual_core::log::{LineEnd, decode_marks, lines};
use punctual_core::{ShardId, Timestamp};

#[derive(Default)]
struct Announced(Mutex<usize>);

impl LogOutlet for Announced {
    fn ready(&self, _: LogSink) {
        *self.0.lock().unwrap() += 1;
    }
}

fn log(bytes_max: usize) -> (LogSink, Arc<Announced>) {
    let outlet = Arc::new(Announced::default());
    let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
    (LogSink::new(job, AttemptNo::FIRST, bytes_max, outlet.clone()), outlet)
}

fn all(log: &LogSink) -> String {
    let mut text = Vec::new();
    while let Some(piece) = log.take(usize::MAX) {
        text.extend_from_slice(&piece.bytes);
    }
    String::from_utf8(text).unwrap()
}

/// Each line with its stream, taken in pieces of `piece_bytes`.
fn streams(log: &LogSink, piece_bytes: usize) -> Vec<(String, LogStream)> {
    let (mut text, mut marks) = (Vec::new(), Vec::new());
    while let Some(piece) = log.take(piece_bytes) {
        assert_eq!(piece.offset, text.len() as u64);
        marks.extend(decode_marks(piece.offset, piece.bytes.len(), &piece.marks).expect("each piece has marks"));
        text.extend_from_slice(&piece.bytes);
    }
    let line = |line: punctual_core::log::LogLine<'_>| {
        let end = if line.end == LineEnd::Break { "\n" } else { "" };
        (String::from_utf8(line.text.to_vec()).unwrap() + end, line.mark.unwrap().stream)
    };
    lines(0, &text, &marks).into_iter().map(line).collect()
}

#[test]
fn a_log_without_lines_never_touches_its_outlet() {
    let (log, outlet) = log(1000);
    assert_eq!(log.take(10), None);
    assert_eq!(log.close(), ClosedLog { is_written: false, is_to_announce: false });
    assert_eq!(*outlet.0.lock().unwrap(), 0);
}

#[test]
fn bytes_are_kept_as_they_are() {
    let (log, _) = log(1000);
    log.write(LogStream::Stdout, b"one\ntw");
    log.write(LogStream::Stdout, b"o");
    assert_eq!(all(&log), "one\ntwo");
}

#[test]
fn lines_are_announced_once_until_they_were_taken() {
    let (log, outlet) = log(1000);
    log.line("one");
    log.line("two\n");
    assert_eq!(*outlet.0.lock().unwrap(), 1);
    assert_eq!(all(&log), "one\ntwo\n");
    log.line("three");
    assert_eq!(*outlet.0.lock().unwrap(), 2);
    let piece = log.take(100).unwrap();
    assert_eq!((piece.offset, &piece.bytes[..]), (8, &b"three\n"[..]));
}

#[test]
fn of_a_log_above_its_limit_the_begin_and_the_end_are_kept_with_what_was_left_out() {
    let (log, outlet) = log(4 << 10);
    let line = |number: usize| format!("line {number:05} é");
    let line_len = line(0).len() as u64 + 1;
    for number in 0..1000 {
        log.line(line(number));
    }
    let head = all(&log);
    assert!(head.starts_with(&format!("{}\n", line(0))), "{head}");
    assert!(
        head.ends_with(
            "\n[log limit of 4 KiB reached: of what follows, the end is shown when the attempt has ended]\n"
        )
    );
    assert_eq!(log.close(), ClosedLog { is_written: true, is_to_announce: true });
    log.line("never seen");
    let tail = all(&log);
    assert!(tail.ends_with(&format!("\n{}\n", line(999))), "{tail}");
    assert!(head.len() + tail.len() <= 4 << 10, "{} and {}", head.len(), tail.len());
    let (note, rest) = tail.split_once('\n').unwrap();
    let kept = (head.lines().count() - 1 + rest.lines().count()) as u64;
    assert_eq!(note, format!("[{} bytes ({} lines) left out]", (1000 - kept) * line_len, 1000 - kept));
    assert!(rest.starts_with("line 0"), "it begins with a line: {rest}");
    assert_eq!(*outlet.0.lock().unwrap(), 1, "the end is announced by whoever closes it");
}

#[test]
fn a_log_within_its_limit_is_whole_although_its_second_half_was_held_back() {
    let (log, _) = log(4 << 10);
    let text: String = (0..230).map(|number| format!("line {number:05} out\n")).collect();
    for line in text.lines() {
        log.line(line);
    }
    assert!(text.len() > 2 << 10 && text.len() < (4 << 10) - NOTES_BYTES_MAX, "{}", text.len());
    let mut whole = all(&log);
    assert!(whole.len() < 2 << 10, "{}", whole.len());
    assert!(log.close().is_to_announce);
    whole += &all(&log);
    assert_eq!(whole, text);
}

#[test]
fn one_endless_line_is_cut_between_letters() {
    let (log, _) = log(2 << 10);
    log.write(LogStream::Stdout, b"x");
    for _ in 0..5000 {
        log.write(LogStream::Stdout, "é".as_bytes());
    }
    let _ = log.close();
    let text = all(&log);
    assert!(text.len() <= 2 << 10 && text.contains("é\n[log limit") && text.ends_with("ééé"), "{text}");
}

#[test]
fn lines_keep_their_stream_over_the_borders_of_pieces() {
    for piece_bytes in [1, 3, 1000] {
        let (log, _) = log(10_000);
        log.write(LogStream::Stdout, b"one\ntw");
        log.write(LogStream::Stderr, b"oops\n");
        log.write(LogStream::Stdout, b"o\nlast");
        let expected = [
            ("one\n", LogStream::Stdout),
            ("tw", LogStream::Stdout),
            ("oops\n", LogStream::Stderr),
            ("o\n", LogStream::Stdout),
            ("last", LogStream::Stdout),
        ];
        assert_eq!(
            streams(&log, piece_bytes),
            expected.map(|(text, stream)| (text.to_owned(), stream)),
            "{piece_bytes}"
        );
    }
}

#[test]
fn what_is_written_after_a_piece_was_taken_has_a_mark_of_its_own() {
    let (log, _) = log(10_000);
    let mut marks = Vec::new();
    for (stream, text) in [(LogStream::Stdout, "one\n"), (LogStream::Stderr, "two\n"), (LogStream::Stderr, "thr")] {
        log.write(stream, text.as_bytes());
        let piece = log.take(100).unwrap();
        marks.extend(decode_marks(piece.offset, piece.bytes.len(), &piece.marks).expect("each piece has marks"));
    }
    let found: Vec<_> = marks.iter().map(|mark| (mark.offset, mark.stream)).collect();
    assert_eq!(found, [(0, LogStream::Stdout), (4, LogStream::Stderr), (8, LogStream::Stderr)]);
}

#[test]
fn a_line_has_the_time_of_its_begin_however_long_the_one_before_took() {
    let mut pen = Pen::default();
    assert_eq!(pen.write(LogStream::Stdout, 1, b"copying"), Some(0));
    assert_eq!(pen.write(LogStream::Stdout, 9000, b", done\nnext\n"), Some(7));
    assert_eq!(pen.write(LogStream::Stdout, 9000, b"at once\n"), None);
    assert_eq!(pen.write(LogStream::Stdout, 9001, b"later"), Some(0));
    assert_eq!(pen.write(LogStream::Stdout, 9002, b"\n"), None);
    assert_eq!(pen.write(LogStream::Stderr, 9002, b"other"), Some(0));
}

#[test]
fn the_end_of_a_long_log_keeps_its_streams_too() {
    let (log, _) = log(4 << 10);
    for number in 0..1000 {
        let stream = if number % 2 == 0 { LogStream::Stdout } else { LogStream::Stderr };
        log.write(stream, format!("{number}\n").as_bytes());
    }
    let _ = log.close();
    let lines = streams(&log, 100);
    let mut notes = 0;
    for (text, stream) in lines {
        match text.trim_end().parse::<usize>() {
            // Alternating streams need more marks than there may be: those at the very end have theirs.
            Ok(number) if number > 900 => assert_eq!(stream == LogStream::Stdout, number % 2 == 0, "{text}"),
            Ok(_) => {}
            Err(_) => {
                assert_eq!(stream, LogStream::System, "{text}");
                notes += 1;
            }
        }
    }
    assert_eq!(notes, 2);
}

#[test]
fn a_log_that_is_written_byte_by_byte_has_fewer_marks_than_bytes() {
    let (log, _) = log(64 << 10);
    for number in 0..200_000 {
        log.write(LogStream::ALL[number % 2], b"\n");
    }
    let _ = log.close();
    let (mut bytes, mut marks) = (0, 0);
    while let Some(piece) = log.take(1 << 10) {
        bytes += piece.bytes.len();
        marks += piece.marks.len();
    }
    assert!(bytes <= 64 << 10 && marks < bytes / 2, "{bytes} and {marks}");
}

#[test]
fn a_piece_that_is_taken_again_has_the_same_place_and_length() {
    let (log, _) = log(1000);
    log.line("first line");
    let first = [log.take(4).unwrap(), log.take(4).unwrap()];
    assert!(!log.rewind(), "it is still announced");
    let again = [log.take(100).unwrap(), log.take(100).unwrap()];
    assert_eq!(first, again);
    let last = log.take(100).unwrap();
    assert_eq!((last.offset, &last.bytes[..]), (8, &b"ne\n"[..]));
    assert_eq!(log.take(100), None);
    assert!(log.rewind());
}

#[test]
fn lines_after_the_end_are_dropped() {
    let (log, _) = log(1000);
    log.line("kept");
    assert!(log.close().is_written);
    log.line("dropped");
    assert_eq!(all(&log), "kept\n");
}
