//! Asks a JSON-RPC server as fast as it answers, over keep-alive connections, and says how many requests a
//! second it answered and what processor time both sides took.
//!
//! ```text
//! load                                   a server of its own with two methods that do nothing but answer
//! load ADDRESS REQUEST...                another server; each REQUEST is the text of one call
//! ```
//! `CONNECTIONS` and `SECONDS` in the environment change 16 and 5.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use tally_jsonrpc::server::{Endpoint, Options, Registry, Server};
use tally_jsonrpc::write;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve(),
        Some(address) => measure(address, &arguments[1..], None),
        None => {
            let mut child =
                Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
            let mut address = String::new();
            let output = child.stdout.take().ok_or("the server has no output")?;
            BufReader::new(output).read_line(&mut address)?;
            let requests = [
                r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#.to_owned(),
                r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x10",false]}"#
                    .to_owned(),
            ];
            let mut result = Ok(());
            for request in requests {
                result = result.and_then(|()| measure(address.trim(), &[request], Some(child.id())));
            }
            child.kill()?;
            child.wait()?;
            result
        }
    }
}

/// Serves one small and one large answer, until killed.
fn serve() -> Result<(), Failure> {
    let mut registry = Registry::new();
    registry.add("eth_blockNumber", |params, out, _| {
        params.none()?;
        write::quantity(out, 0x1234);
        Ok(())
    });
    registry.add("eth_getBlockByNumber", |params, out, _| {
        let [number, full] = params.take::<2>()?;
        let _: (u64, bool) = (number.required()?, full.required()?);
        write::array(out, 0..400_u64, |out, n| {
            write::data(out, B256::repeat_byte(n.to_le_bytes()[0]).as_slice());
        });
        Ok(())
    });
    let server = Server::start(
        vec![Endpoint::new(([127, 0, 0, 1], 0).into())],
        registry,
        &Options::default(),
        &tally_ops::metrics::Registry::new(),
    )?;
    println!("{}", server.addresses()[0]);
    loop {
        std::thread::park();
    }
}

fn measure(address: &str, requests: &[String], server: Option<u32>) -> Result<(), Failure> {
    let setting = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let connections = setting("CONNECTIONS", 16);
    let seconds = setting("SECONDS", 5);
    let heads: Vec<Vec<u8>> = requests
        .iter()
        .map(|body| {
            format!(
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        })
        .collect();
    let heads = std::sync::Arc::new(heads);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (own, other) = (processor_seconds("self"), server.map(|pid| processor_seconds(&pid.to_string())));
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let (answered, bytes) = runtime.block_on(async {
        let mut tasks = Vec::new();
        for offset in 0..connections {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            tasks.push(tokio::spawn(ask(stream, heads.clone(), usize::try_from(offset)?, until)));
        }
        let mut sum = (0, 0);
        for task in tasks {
            let (answered, bytes) = task.await??;
            sum = (sum.0 + answered, sum.1 + bytes);
        }
        Ok::<_, Failure>(sum)
    })?;
    let elapsed = began.elapsed().as_secs_f64();
    println!(
        "{:.0} requests/s, {} bytes an answer, {:.2} cores here, {} there",
        answered as f64 / elapsed,
        bytes / answered.max(1),
        (processor_seconds("self") - own) / elapsed,
        match (server, other) {
            (Some(pid), Some(other)) =>
                format!("{:.2} cores", (processor_seconds(&pid.to_string()) - other) / elapsed),
            _ => "unknown cores".to_owned(),
        },
    );
    Ok(())
}

/// One connection: one request after the other, until the time is up.
async fn ask(
    mut stream: TcpStream,
    requests: std::sync::Arc<Vec<Vec<u8>>>,
    offset: usize,
    until: Instant,
) -> Result<(u64, u64), Failure> {
    let mut buffer = vec![0; 256 << 10];
    let (mut answered, mut bytes) = (0, 0);
    for request in requests.iter().cycle().skip(offset) {
        stream.write_all(request).await?;
        let mut filled = 0;
        let mut wanted = usize::MAX;
        while filled < wanted {
            let read = stream.read(&mut buffer[filled..]).await?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            filled += read;
            if wanted == usize::MAX
                && let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n")
            {
                let head = std::str::from_utf8(&buffer[..end])?.to_ascii_lowercase();
                if !head.starts_with("http/1.1 200") {
                    return Err(head.into());
                }
                let length = head.split("content-length:").nth(1).ok_or("no content-length")?;
                let length: usize = length.lines().next().unwrap_or_default().trim().parse()?;
                wanted = end + 4 + length;
                if buffer.len() < wanted {
                    buffer.resize(wanted, 0);
                }
            }
        }
        answered += 1;
        bytes += wanted as u64;
        if Instant::now() >= until {
            break;
        }
    }
    Ok((answered, bytes))
}

/// Processor time that a process has taken, in seconds; clock ticks are 10 ms on Linux.
fn processor_seconds(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
