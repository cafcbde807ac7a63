//! Lines of a report: width, colour, and nothing on the terminal that a name or a statement smuggled in.

use profiler_common::bucket::Bucket;

use super::Style;

/// How a stretch of a line looks on a terminal with colours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Strong,
    Faint,
    Warning,
    Of(Bucket),
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Paint::Plain => "",
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Warning => "1;33",
            Paint::Of(bucket) => match bucket {
                Bucket::PageRead => "34",
                Bucket::WalFsync => "35",
                Bucket::Lock => "31",
                Bucket::Cpu => "32",
                Bucket::RunQueue => "33",
                Bucket::Client => "36",
                _ => "37",
            },
        }
    }
}

/// A line being put together.
#[derive(Default)]
pub(super) struct Line {
    spans: Vec<(Paint, String)>,
}

impl Line {
    pub fn add(mut self, paint: Paint, text: impl Into<String>) -> Self {
        self.spans.push((paint, text.into()));
        self
    }
}

/// The report being put together.
pub(super) struct Page {
    style: Style,
    out: String,
}

impl Page {
    pub fn new(style: Style) -> Self {
        Page { style, out: String::new() }
    }

    pub fn width(&self) -> usize {
        self.style.width
    }

    pub fn finish(self) -> String {
        self.out
    }

    pub fn blank(&mut self) {
        self.out.push('\n');
    }

    pub fn line(&mut self, text: impl Into<String>) {
        self.write(Line::default().add(Paint::Plain, text));
    }

    /// A blank line and the head of a section, with what has to be said about all of it, and the heads of its columns
    /// at the right.
    pub fn section(&mut self, title: &str, remark: &str, columns: &str) {
        self.blank();
        let mut line = Line::default().add(Paint::Strong, title);
        let mut used = title.chars().count();
        if !remark.is_empty() {
            used += remark.chars().count() + 2;
            line = line.add(Paint::Plain, format!("  {remark}"));
        }
        if !columns.is_empty() {
            let room = self.width().saturating_sub(used);
            line = line.add(Paint::Faint, format!("{columns:>room$}"));
        }
        self.write(line);
    }

    /// Text broken between words, `first` before its first line and as many blanks before the others; at most
    /// `max_lines`, the last ending in `…` if there is more.
    pub fn paragraph(&mut self, paint: Paint, first: &str, text: &str, max_lines: usize) {
        let indent = first.chars().count();
        let room = self.width().saturating_sub(indent);
        let mut lines = wrap(text, room);
        if lines.len() > max_lines {
            lines.truncate(max_lines);
            if let Some(last) = lines.last_mut() {
                if last.chars().count() + 2 > room {
                    let whole_words = last.rfind(' ').unwrap_or(0);
                    last.truncate(whole_words);
                }
                last.push_str(" …");
            }
        }
        for (at, text) in lines.into_iter().enumerate() {
            let lead = if at == 0 { first.to_owned() } else { " ".repeat(indent) };
            self.write(Line::default().add(paint, format!("{lead}{text}")));
        }
    }

    /// Ends a line: control characters become blanks, what is too wide is cut, blanks at the end go.
    pub fn write(&mut self, line: Line) {
        let mut left = self.width();
        let mut spans: Vec<(Paint, String)> = Vec::new();
        let total: usize = line.spans.iter().map(|(_, text)| text.chars().count()).sum();
        for (paint, text) in line.spans {
            let mut clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            if total > self.width() && clean.chars().count() >= left {
                clean = cut(&clean, left);
            }
            left -= clean.chars().count();
            spans.push((paint, if self.style.unicode { clean } else { ascii(&clean) }));
        }
        while let Some((_, last)) = spans.last_mut() {
            last.truncate(last.trim_end().len());
            if !last.is_empty() {
                break;
            }
            spans.pop();
        }
        for (paint, text) in spans {
            if self.style.color && paint != Paint::Plain && !text.trim().is_empty() {
                self.out.push_str(&format!("\x1b[{}m{text}\x1b[0m", paint.code()));
            } else {
                self.out.push_str(&text);
            }
        }
        self.out.push('\n');
    }
}

/// The text, or as much of it as fits and a `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { String::new() } else { format!("{}…", kept.trim_end()) }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in words(text) {
        let mut word: Vec<char> = word.chars().collect();
        if used != 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        // A word wider than a line is broken where the line ends.
        while word.len() > width && width != 0 {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if used != 0 {
            line.push(' ');
            used += 1;
        }
        used += word.len();
        line.extend(word);
    }
    if used != 0 || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// The words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 7] = ["%", "ns", "µs", "ms", "s", "min", "h"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', '.', ';', ':', ')']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&unit) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The nearest ASCII of each character, column by column.
fn ascii(text: &str) -> String {
    let nearest = |c: char| match c {
        '\0'..='\x7f' => c,
        '█' | '▉' | '▊' | '▋' => '#',
        '▌' | '▍' | '▎' | '▏' => ' ',
        '▇' => '%',
        '▆' => '*',
        '▅' => '+',
        '▄' => '=',
        '▃' => '-',
        '▂' => '.',
        '▁' => '_',
        'µ' => 'u',
        '–' | '·' => '-',
        '…' => '~',
        '×' => 'x',
        _ => '?',
    };
    text.chars().map(nearest).collect()
}

/// A bar of `share` (0 to 1) of `width` columns, in eighths of a column; what is not zero shows.
pub(super) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(color: bool, unicode: bool) -> Page {
        Page::new(Style { width: 20, color, unicode })
    }

    #[test]
    fn names_cannot_send_escape_sequences() {
        let mut page = page(true, true);
        page.write(Line::default().add(Paint::Of(Bucket::Lock), "a\x1b[2Jb\n"));
        assert_eq!(page.finish(), "\x1b[31ma [2Jb\x1b[0m\n");
    }

    #[test]
    fn lines_are_cut_at_the_width_and_lose_blanks_at_the_end() {
        let mut page = page(false, true);
        page.write(Line::default().add(Paint::Plain, "0123456789").add(Paint::Plain, "abcdefghijklmnop"));
        page.write(Line::default().add(Paint::Plain, "0123456789").add(Paint::Plain, "abcdefghij"));
        page.line("x   ");
        assert_eq!(page.finish(), "0123456789abcdefghi…\n0123456789abcdefghij\nx\n");
    }

    #[test]
    fn paragraphs_break_between_words_and_end_in_an_ellipsis() {
        let mut page = page(false, true);
        page.paragraph(Paint::Plain, "! ", "one two three four five six seven eight nine ten", 2);
        assert_eq!(page.finish(), "! one two three four\n  five six seven …\n");
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(wrap("it took 99.5 % of it", 13), ["it took", "99.5 % of it"]);
    }

    #[test]
    fn a_word_wider_than_the_page_is_broken() {
        assert_eq!(wrap("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn bars_show_the_smallest_share_and_degrade_to_ascii() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(0.0001, 10), "▏");
        assert_eq!(bar(0.5, 10), "█████");
        assert_eq!(bar(1.0, 10), "██████████");
        let mut page = page(false, false);
        page.line(format!("{} 5 µs …", bar(0.47, 10)));
        assert_eq!(page.finish(), "##### 5 us ~\n");
    }
}
