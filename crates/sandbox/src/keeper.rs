//! How a keeper is spoken to. That is a process beside a worker, which reads from a pipe which process groups there are,
//! and kills those that are left when the worker is gone and the pipe is closed.

use std::io::{self, Cursor, Write};
use std::os::fd::AsFd;

use rustix::process::Pid;

/// Holds the longest word with the longest number.
const LINE_LEN_MAX: usize = 24;

/// A message to the keeper about a process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWord {
    Add,
    Remove,
}

/// One write, so that no half of a line is left when this process is killed. It allocates nothing, since a child
/// calls it between fork and exec.
pub fn tell_keeper(pipe: impl AsFd, word: GroupWord, group: Pid) -> io::Result<()> {
    let word = match word {
        GroupWord::Add => "add",
        GroupWord::Remove => "remove",
    };
    let mut line = Cursor::new([0; LINE_LEN_MAX]);
    writeln!(line, "{word} {}", group.as_raw_pid())?;
    let len = line.position() as usize;
    rustix::io::retry_on_intr(|| rustix::io::write(&pipe, &line.get_ref()[..len]))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_longest_line_fits() {
        let (mut reader, writer) = io::pipe().unwrap();
        let group = Pid::from_raw(i32::MAX).unwrap();
        tell_keeper(&writer, GroupWord::Add, group).unwrap();
        tell_keeper(&writer, GroupWord::Remove, group).unwrap();
        drop(writer);
        let mut told = String::new();
        reader.read_to_string(&mut told).unwrap();
        assert_eq!(told, "add 2147483647\nremove 2147483647\n");
    }
}
