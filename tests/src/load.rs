//! A closed-loop load whose connections are there before, idle around, and still there after it.
//!
//! Counters read before and after such a load cover exactly the load, however long attaching and detaching take:
//! an idle backend adds nothing to them. A load generator that connects and leaves cannot offer that.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

use crate::{client::Client, poll, procfs, server::Server};

/// Idle connections ready to run a load.
#[derive(Debug)]
pub struct Load {
    clients: Vec<Client>,
}

impl Load {
    /// Opens the connections and warms up their caches with one run of the script each.
    pub fn connect(server: &Server, connections: usize, script: impl Fn(u64) -> Vec<String>) -> Result<Load> {
        let mut clients = Vec::new();
        for number in 0..connections {
            let mut client = server.connect()?;
            for sql in script(number as u64) {
                client.query(&sql)?;
            }
            clients.push(client);
        }
        Ok(Load { clients })
    }

    /// Process ids of the backends.
    pub fn pids(&self) -> Vec<u32> {
        self.clients.iter().map(Client::pid).collect()
    }

    /// Runs the script over and over on every connection for about `length`; returns how often it ran. The script is
    /// given a number that differs from run to run. Every backend is asleep again when this returns.
    pub fn run(&mut self, length: Duration, script: impl Fn(u64) -> Vec<String> + Sync) -> Result<u64> {
        let script = &script;
        let end = Instant::now() + length;
        let runs: Result<Vec<u64>> = thread::scope(|scope| {
            let threads: Vec<_> = self
                .clients
                .iter_mut()
                .enumerate()
                .map(|(number, client)| {
                    scope.spawn(move || -> Result<u64> {
                        let mut random = Random::new(number as u64);
                        let mut runs = 0;
                        while Instant::now() < end {
                            for sql in script(random.next()) {
                                client.query(&sql)?;
                            }
                            runs += 1;
                        }
                        Ok(runs)
                    })
                })
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(runs) => runs,
                Err(_) => Err(anyhow!("a load thread panicked")),
            });
            ended.collect()
        });
        let runs = runs?;
        self.settle()?;
        Ok(runs.iter().sum())
    }

    /// Runs one statement on every connection.
    pub fn each(&mut self, sql: &str) -> Result<()> {
        for client in &mut self.clients {
            client.query(sql)?;
        }
        self.settle()
    }

    /// The answer is sent before the backend goes to sleep: wait until it has.
    fn settle(&self) -> Result<()> {
        for client in &self.clients {
            poll::until("an idle backend to sleep", Duration::from_secs(5), || {
                Ok(procfs::sleeps(client.pid())?.then_some(()))
            })?;
        }
        Ok(())
    }
}

/// A small generator of evenly spread numbers (xorshift), seeded so that runs repeat.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of that number.
    pub fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next number. An inherent method rather than an iterator: it never ends.
    #[expect(clippy::should_implement_trait, reason = "an endless generator, not an iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
