//! The machine, as far as it explains a figure.

use serde::{Deserialize, Serialize};

use super::procfs;

/// A description of the machine for a benchmark record. What the system does not tell is `None` or empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The model of the first processor, as the kernel names it.
    pub cpu_model: String,
    /// How many processors this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The largest cache of the first processor, in bytes; a virtual machine may share it with strangers.
    pub cache_bytes: Option<u64>,
    /// Name and release of the kernel, such as `Linux 6.1.0`.
    pub kernel: String,
    /// The architecture the program was compiled for, such as `x86_64`.
    pub architecture: String,
}

/// Describes this machine.
#[must_use]
pub fn machine() -> Machine {
    let read = |path| procfs::read(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let kernel = |name| read(name).trim().to_owned();
    Machine {
        // x86 says "model name"; Arm boards often say only "Model" or nothing.
        cpu_model: ["model name", "Model", "Processor"]
            .iter()
            .find_map(|field| procfs::field(&cpu, field))
            .unwrap_or_default()
            .to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: procfs::kib_field(&read("/proc/meminfo"), "MemTotal"),
        cache_bytes: (0..8)
            .filter_map(|index| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
                let size = procfs::read(&path).ok()?;
                size.trim().strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
            })
            .max(),
        kernel: format!("{} {}", kernel("/proc/sys/kernel/ostype"), kernel("/proc/sys/kernel/osrelease"))
            .trim()
            .to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
    }
}
