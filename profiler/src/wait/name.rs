//! From a `wait_event_info` word to the name `pg_stat_activity` would show.

use std::borrow::Cow;

use profiler_common::event;

use super::{
    class::{EXTENSION, UNNAMED_CLASS, class_name},
    names::MAJORS,
};

/// The last id of a class that has an index of its own is shared by all that follow.
const SHARED_ID: u32 = 0xff;

/// A wait event's class and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName {
    /// Class, such as `LWLock`; `Unnamed` where the server names no wait, `Unknown` for a class no known version has.
    pub class: &'static str,
    /// Event, such as `WALWrite`; the id in hexadecimal where it has no name, with a `+` where several share it.
    pub event: Cow<'static, str>,
}

/// Names a `wait_event_info` word of a server of the given major version.
pub fn name(major: u32, wait_event_info: u32) -> EventName {
    if wait_event_info == 0 {
        return EventName { class: UNNAMED_CLASS, event: Cow::Borrowed("NoWaitEvent") };
    }
    let class = wait_event_info >> 24;
    let id = wait_event_info & 0xffff;
    if let Some(event) = known(major, class << 24 | id) {
        return EventName { class: class_name(class).unwrap_or("Unknown"), event: Cow::Borrowed(event) };
    }
    match class_name(class) {
        // Before 17 the server itself shows every id of this class under one name.
        Some(class_name) if class == EXTENSION && (14..17).contains(&major) => {
            EventName { class: class_name, event: Cow::Borrowed("Extension") }
        }
        Some(class) => EventName { class, event: Cow::Owned(format!("0x{id:04x}")) },
        None => EventName { class: "Unknown", event: Cow::Owned(format!("0x{wait_event_info:08x}")) },
    }
}

/// Names a dense index (see [`profiler_common::event`]).
pub fn name_of_index(major: u32, index: u32) -> EventName {
    let mut named = name(major, event::wait_event_info(index));
    if index & 0xff == SHARED_ID && named.event.starts_with("0x") {
        named.event.to_mut().push('+');
    }
    named
}

fn known(major: u32, word: u32) -> Option<&'static str> {
    let (_, names) = MAJORS.iter().find(|(known, _)| *known == major)?;
    let at = names.binary_search_by_key(&word, |(word, _)| *word).ok()?;
    Some(names[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(major: u32, word: u32) -> String {
        let EventName { class, event } = name(major, word);
        format!("{class}/{event}")
    }

    #[test]
    fn every_line_of_the_data_file_has_its_name_and_an_index_of_its_own() {
        let mut n_lines = 0;
        for line in include_str!("../../data/wait_events.tsv").lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [major, class, class_byte, id, event] = fields[..] else { panic!("{line}") };
            let class_byte = u32::from_str_radix(&class_byte[2..], 16).expect("hexadecimal class");
            let word = class_byte << 24 | id.parse::<u32>().expect("decimal id");
            let major = major.parse().expect("decimal major");
            assert_eq!(shown(major, word), format!("{class}/{event}"));
            let by_index = name_of_index(major, event::index(word));
            assert_eq!(format!("{}/{}", by_index.class, by_index.event), format!("{class}/{event}"));
            n_lines += 1;
        }
        assert!(n_lines > 1000, "{n_lines} lines");
    }

    #[test]
    fn numbers_moved_between_majors() {
        assert_eq!(shown(14, 0x0A00_0043), "IO/WALSync");
        assert_eq!(shown(15, 0x0A00_0046), "IO/WALSync");
        assert_eq!(shown(18, 0x0A00_004E), "IO/WalSync");
        assert_eq!(shown(15, 0x0100_0008), "LWLock/WALWrite");
    }

    #[test]
    fn unknown_ids_are_shown_raw() {
        assert_eq!(shown(15, 0x0100_0063), "LWLock/0x0063");
        assert_eq!(shown(18, 0x0B00_0002), "InjectionPoint/0x0002");
        assert_eq!(shown(13, 0x0600_0000), "Client/0x0000");
        assert_eq!(shown(15, 0x0C00_0001), "Unknown/0x0c000001");
        assert_eq!(shown(15, 0), "Unnamed/NoWaitEvent");
        assert_eq!(name_of_index(15, event::index(0x0100_1234)).event, "0x00ff+");
    }

    #[test]
    fn extension_waits_have_one_name_before_17() {
        assert_eq!(shown(16, 0x0700_0005), "Extension/Extension");
        assert_eq!(shown(17, 0x0700_0005), "Extension/0x0005");
        assert_eq!(shown(17, 0x0700_0000), "Extension/Extension");
    }
}
