//! What processes spent: seconds of CPU, and memory.
//!
//! What must not live here: what for.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Seconds of CPU, by who spent them. A server on another machine spends none here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// This process.
    pub own: f64,
    /// Every process of PostgreSQL on this machine.
    pub postgres: f64,
    /// Every process of RabbitMQ on this machine.
    pub broker: f64,
}

/// Looks at the processes of this machine.
#[derive(Debug)]
pub(super) struct Machine {
    system: System,
    own: Option<Pid>,
}

/// What each process had spent at a moment, in milliseconds.
#[derive(Debug)]
pub(super) struct Spent(HashMap<Pid, u64>);

impl Machine {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            system: System::new()?,
            own: sysinfo::get_current_pid().ok(),
        })
    }

    /// What each process has spent so far.
    pub(super) fn spent(&mut self) -> Spent {
        self.system.refresh_processes_specifics(
            ProcessesToUpdate::All,
            true,
            ProcessRefreshKind::nothing().with_cpu().without_tasks(),
        );
        let processes = self.system.processes().iter();
        Spent(
            processes
                .map(|(pid, process)| (*pid, process.accumulated_cpu_time()))
                .collect(),
        )
    }

    /// What was spent since.
    pub(super) fn since(&mut self, before: &Spent) -> Cpu {
        let now = self.spent();
        let mut cpu = Cpu::default();
        for (pid, spent) in &now.0 {
            let seconds = spent.saturating_sub(*before.0.get(pid).unwrap_or(&0)) as f64 / 1_000.0;
            let process = self.system.process(*pid);
            let name = process.map_or("", |it| it.name().to_str().unwrap_or(""));
            if Some(*pid) == self.own {
                cpu.own += seconds;
            } else if name.starts_with("postgres") {
                cpu.postgres += seconds;
            } else if name.starts_with("beam") {
                cpu.broker += seconds;
            }
        }
        cpu
    }

    /// Resident bytes of a process, where it is there.
    pub(super) fn resident(&mut self, pid: u32) -> Option<u64> {
        let pid = Pid::from_u32(pid);
        self.system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[pid]),
            true,
            ProcessRefreshKind::nothing().with_memory().without_tasks(),
        );
        self.system.process(pid).map(sysinfo::Process::memory)
    }

    /// What kind of machine it is.
    pub(super) fn about(&mut self) -> String {
        self.system.refresh_memory();
        format!(
            "{} cores, {} GiB, {}",
            std::thread::available_parallelism().map_or(0, usize::from),
            self.system.total_memory() / (1024 * 1024 * 1024),
            System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned()),
        )
    }
}
