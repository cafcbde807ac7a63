//! The few procfs entries needed, read by number. Processes may end at any moment: whatever cannot be read is an
//! error or `None`, and the caller decides whether that matters.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// `/proc/PID/<entry>`.
pub fn path(pid: u32, entry: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{entry}"))
}

/// Numbers of all processes in this pid namespace.
pub fn pids() -> io::Result<Vec<u32>> {
    let numbers = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// What the executable link of a process says, including ` (deleted)`.
pub fn executable(pid: u32) -> io::Result<PathBuf> {
    fs::read_link(path(pid, "exe"))
}

/// The parts of `/proc/PID/stat` that identify a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Command name, at most 15 bytes.
    pub command: String,
    /// Process id of the parent; 0 = none in this namespace.
    pub parent: u32,
    /// Start time, clock ticks since boot: tells a process from a later one of the same number.
    pub start_ticks: u64,
}

/// Reads `/proc/PID/stat`.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(path(pid, "stat")).ok()?)
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The command name may hold blanks and brackets itself.
    let (head, rest) = stat.rsplit_once(')')?;
    let command = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat { command, parent: fields.get(1)?.parse().ok()?, start_ticks: fields.get(19)?.parse().ok()? })
}

/// The number a process has in its own, innermost pid namespace.
pub fn namespaced_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(path(pid, "status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Identity of a namespace of a process; `kind` is `pid` or `mnt`.
pub fn namespace(pid: u32, kind: &str) -> Option<PathBuf> {
    fs::read_link(path(pid, &format!("ns/{kind}"))).ok()
}

/// The command line, or the title the process gave itself; `None` if empty or unreadable.
pub fn title(pid: u32) -> Option<String> {
    let bytes = fs::read(path(pid, "cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Numbers of the children of a process, in no particular order.
pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    let listed = path(pid, &format!("task/{pid}/children"));
    // The kernel's list skips entries when a child ends while it is being read. Two equal readings settle it; a
    // server that never holds still gets everything seen in a few.
    let mut seen = match read_numbers(&listed) {
        Ok(seen) => seen,
        Err(_) => return children_by_scan(pid),
    };
    for _ in 0..4 {
        let again = read_numbers(&listed)?;
        let n_seen = seen.len();
        seen.extend(again.iter().copied());
        seen.sort_unstable();
        seen.dedup();
        if seen.len() == n_seen && again.len() == n_seen {
            break;
        }
    }
    Ok(seen)
}

fn read_numbers(path: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(path)?;
    Ok(text.split_whitespace().filter_map(|number| number.parse().ok()).collect())
}

/// For kernels without CONFIG_PROC_CHILDREN.
fn children_by_scan(pid: u32) -> io::Result<Vec<u32>> {
    fs::metadata(path(pid, "stat"))?;
    Ok(pids()?.into_iter().filter(|&child| stat(child).is_some_and(|stat| stat.parent == pid)).collect())
}

/// An entry of the auxiliary vector the kernel gave the process at exec; inherited by forked children.
pub fn auxiliary(pid: u32, key: u64) -> io::Result<Option<u64>> {
    let bytes = fs::read(path(pid, "auxv"))?;
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|chunk| u64::from_ne_bytes(*chunk)).collect();
    Ok(words.chunks_exact(2).find(|pair| pair[0] == key).map(|pair| pair[1]))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::process::{Command, Stdio, id};

    use super::*;

    #[test]
    fn awkward_command_names_are_parsed() {
        let fields = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 5 6";
        let parsed = parse_stat(&format!("12 (post) gres (x) {fields}")).unwrap();
        assert_eq!(parsed, Stat { command: "post) gres (x".to_owned(), parent: 7, start_ticks: 4242 });
        assert_eq!(parse_stat("12 (x) S 7"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn children_are_found_both_ways() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        // The listing is per thread and tests run on threads: this child belongs to the thread that made it.
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let listed = read_numbers(&Path::new("/proc").join(thread).join("children"));
        let scanned = children_by_scan(id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(scanned.contains(&child.id()), "{scanned:?}");
        if let Ok(listed) = listed {
            assert!(listed.contains(&child.id()), "{listed:?}");
        }
    }
}
