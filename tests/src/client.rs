//! A client that speaks just enough of PostgreSQL's protocol for the tests.
//!
//! The tests need what a driver hides: the backend's pid without a query, the instant a message is sent, several
//! messages in one packet, hundreds of connections in one thread, and no transaction that the test did not ask for.

use std::{
    io::{BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows of an answer, as text; `None` is SQL's null.
pub type Rows = Vec<Vec<Option<String>>>;

/// One connection, closed politely when dropped.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    pid: u32,
}

impl Client {
    /// Connects over the socket and waits until the server is ready for a query. Only `trust` is understood.
    pub fn connect(socket: &Path, user: &str, database: &str) -> Result<Client> {
        let stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client = Client { stream: BufReader::new(stream), pid: 0 };
        let mut body = 196_608_u32.to_be_bytes().to_vec(); // protocol 3.0
        for text in ["user", user, "database", database, "application_name", "pgstall-tests"] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        body.push(0);
        let mut packet = length(&body)?.to_vec();
        packet.extend_from_slice(&body);
        client.send_raw(&packet)?;
        client.receive()?;
        Ok(client)
    }

    /// Process id of the backend, in the server's own namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Runs one simple query message and returns its last result's rows.
    pub fn query(&mut self, sql: &str) -> Result<Rows> {
        self.send(sql)?;
        self.receive().with_context(|| sql.to_owned())
    }

    /// Runs a query whose answer is one number.
    pub fn number(&mut self, sql: &str) -> Result<f64> {
        let rows = self.query(sql)?;
        let value = rows.first().and_then(|row| row.first()?.as_ref());
        let value = value.with_context(|| format!("no value from {sql}"))?;
        value.parse().with_context(|| format!("{value:?} from {sql}"))
    }

    /// Sends a simple query message and does not wait for the answer.
    pub fn send(&mut self, sql: &str) -> Result<()> {
        let packet = message(b'Q', &text(sql))?;
        self.send_raw(&packet)
    }

    /// Sends bytes as they are, for instance several [`message`]s.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes).context("send to the server")
    }

    /// Waits until the server is ready for the next query; returns the last result's rows, or the server's error.
    pub fn receive(&mut self) -> Result<Rows> {
        let mut rows = Rows::new();
        let mut error = None;
        loop {
            let (kind, body) = self.read_message()?;
            match kind {
                b'Z' => break,
                b'K' => self.pid = u32_at(&body, 0)?,
                b'T' => rows.clear(),
                b'D' => rows.push(row(&body)?),
                b'E' => {
                    let fields = body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
                    let message: Vec<_> = fields.collect();
                    error = Some(message.join(" "));
                    // Before the connection is up an error is the last word.
                    if self.pid == 0 {
                        break;
                    }
                }
                b'R' if u32_at(&body, 0)? != 0 => bail!("the server asks for authentication"),
                _ => {}
            }
        }
        match error {
            Some(text) => bail!("the server says: {text}"),
            None => Ok(rows),
        }
    }

    fn read_message(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header).context("read from the server")?;
        let length = u32_at(&header, 1)? as usize;
        let mut body = vec![0; length.checked_sub(4).context("a message shorter than its length")?];
        self.stream.read_exact(&mut body).context("read from the server")?;
        Ok((header[0], body))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.send_raw(b"X\0\0\0\x04"));
    }
}

/// A protocol message: its kind, its length, its body.
pub fn message(kind: u8, body: &[u8]) -> Result<Vec<u8>> {
    let mut packet = vec![kind];
    packet.extend_from_slice(&length(body)?);
    packet.extend_from_slice(body);
    Ok(packet)
}

/// A string of the protocol: its bytes and a terminating NUL.
pub fn text(value: &str) -> Vec<u8> {
    let mut bytes = value.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn length(body: &[u8]) -> Result<[u8; 4]> {
    Ok(u32::try_from(body.len() + 4).context("a message beyond 4 GiB")?.to_be_bytes())
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let four = bytes.get(at..at + 4).context("a message too short")?;
    Ok(u32::from_be_bytes(four.try_into()?))
}

fn row(body: &[u8]) -> Result<Vec<Option<String>>> {
    let count = u16::from_be_bytes(body.get(..2).context("a row too short")?.try_into()?);
    let mut at = 2;
    let mut values = Vec::new();
    for _ in 0..count {
        let length = u32_at(body, at)?;
        at += 4;
        if length == u32::MAX {
            values.push(None);
            continue;
        }
        let end = at + length as usize;
        let value = body.get(at..end).context("a row too short")?;
        values.push(Some(String::from_utf8_lossy(value).into_owned()));
        at = end;
    }
    Ok(values)
}
