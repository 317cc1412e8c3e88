//! A network in a temporary directory, run by a process of its own.

pub(crate) use crate::said::{Said, tally};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tally::client::Client;
use tally::connection::RunFile;
use tally::layout::Layout;
use tempfile::TempDir;

/// Four customers at two banks, with round balances; and one institution of each other kind.
pub(crate) const PLAN: &str = r#"
[[participant]]
bic = "TSCBDEFF"
name = "O=Central Bank,C=DE"
kind = "central-bank"

[[participant]]
bic = "ALPHDEFF"
name = "O=Alpha Bank,C=DE"
kind = "bank"
reserves = { EUR = "100000.00", USD = "100000.00" }

[[participant]]
bic = "BETAFRPP"
name = "O=Beta Banque,C=FR"
kind = "bank"
reserves = { EUR = "100000.00", USD = "100000.00" }
unidentified_account = "beta-unidentified"

[[participant]]
bic = "EMONNL2A"
name = "O=E-Money,C=NL"
kind = "e-money-issuer"
reserves = { EUR = "50.00" }

[[participant]]
bic = "TSDPDEFF"
name = "O=Depository,C=DE"
kind = "depository"

[[asset]]
code = "EUR"
exponent = 2
settled_at = "TSCBDEFF"
largest_payment = "50000.00"

[[asset]]
code = "USD"
exponent = 2
settled_at = "TSCBDEFF"

[[asset]]
code = "DE000TALLY17"
exponent = 0
settled_at = "TSDPDEFF"

[[account]]
institution = "ALPHDEFF"
iban = "DE20999000010000000001"
currency = "EUR"
opening = "1000.00"
key = "alice"

[[account]]
institution = "ALPHDEFF"
iban = "DE90999000010000000002"
currency = "EUR"
opening = "1000.00"
key = "albert"

[[account]]
institution = "BETAFRPP"
iban = "FR7699999000010000000000115"
currency = "EUR"
opening = "1000.00"
key = "bob"

[[account]]
institution = "BETAFRPP"
alias = "bob-usd"
currency = "USD"
opening = "1000.00"
key = "bob"

[[account]]
institution = "ALPHDEFF"
alias = "alice-usd"
currency = "USD"
key = "alice"

[[account]]
institution = "ALPHDEFF"
alias = "alice-bonds"
currency = "DE000TALLY17"
opening = "100"
key = "alice"

[[account]]
institution = "BETAFRPP"
alias = "bob-bonds"
currency = "DE000TALLY17"
key = "bob"

[[account]]
institution = "BETAFRPP"
alias = "beta-unidentified"
currency = "EUR"
key = "@institution"

[[account]]
institution = "EMONNL2A"
alias = "emil@example.org"
currency = "EUR"
opening = "30.00"
overdraft = "5.00"
"#;

pub(crate) const ALICE: &str = "DE20999000010000000001";
pub(crate) const ALBERT: &str = "DE90999000010000000002";
pub(crate) const BOB: &str = "FR7699999000010000000000115";

impl Said {
    /// The first word of each line.
    pub(crate) fn statuses(&self) -> Vec<String> {
        self.out.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    /// The status and, where there is one, the reason code of each line.
    pub(crate) fn answers(&self) -> Vec<String> {
        let answer = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        self.out.lines().map(answer).collect()
    }
}

/// A network in a directory that goes when this does.
pub(crate) struct Network {
    _home: TempDir,
    pub(crate) directory: PathBuf,
}

impl Network {
    /// The network of that plan.
    pub(crate) fn of(plan: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("plan.toml");
        std::fs::write(&file, plan).unwrap();
        let directory = home.path().join("network");
        let said: Said = tally()
            .args(["network", "init", "--weak-keys", "--plan"])
            .args([&file, &directory])
            .output()
            .unwrap()
            .into();
        assert_eq!(said.code, Some(0), "{said:?}");
        Self::at(home, directory)
    }

    /// The network that lies there already.
    pub(crate) fn at(home: TempDir, directory: PathBuf) -> Self {
        Self { _home: home, directory }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(&self.directory)
    }

    pub(crate) fn run(&self) -> Running<'_> {
        self.run_with(&[])
    }

    /// Starts the network and waits until it listens.
    pub(crate) fn run_with(&self, arguments: &[&str]) -> Running<'_> {
        let mut running = self.start(arguments);
        assert!(running.listens(), "the network did not start: {}", running.errors());
        running
    }

    /// Starts the network's process.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running<'_> {
        let mut child = tally()
            .args(["network", "run"])
            .arg(&self.directory)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { network: self, child, out }
    }
}

/// A network that runs; killed when this goes.
pub(crate) struct Running<'a> {
    network: &'a Network,
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running<'_> {
    /// Waits until it listens; false when it ended instead.
    pub(crate) fn listens(&mut self) -> bool {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.contains("://127.0.0.1:")
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut text);
        text
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        RunFile::read(&self.network.layout()).unwrap().address
    }

    /// The token of the network's operator.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.network.layout().token()).unwrap().trim().to_owned()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_of(&self.token())
    }

    /// A client of the user with that token.
    pub(crate) fn client_of(&self, token: &str) -> Client {
        let url = RunFile::read(&self.network.layout()).unwrap().url();
        Client::new(&url, Some(token.to_owned()), None).unwrap()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.network.directory
    }

    /// Waits until a network that did not start has ended; how.
    pub(crate) fn ended(mut self) -> Said {
        let err = self.errors();
        Said { code: self.child.wait().unwrap().code(), out: String::new(), err }
    }

    /// Runs a command against it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Said {
        let output = tally().arg("--network").arg(&self.network.directory).args(arguments).output();
        output.unwrap().into()
    }

    /// Sends messages.
    pub(crate) fn pay(&self, files: &[&Path]) -> Said {
        let output = tally().arg("--network").arg(&self.network.directory).arg("pay").args(files).output();
        output.unwrap().into()
    }

    pub(crate) fn balance(&self, bic: &str, account: &str) -> String {
        let said = self.command(&["balance", bic, account]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.trim().to_owned()
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; returns how it ended and what it printed last.
    pub(crate) fn stop(mut self) -> Said {
        let killed = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let (mut out, err) = (String::new(), self.errors());
        self.out.read_to_string(&mut out).unwrap();
        Said { code: self.child.wait().unwrap().code(), out, err }
    }
}

/// A pain.001.001.09 of one payment.
pub(crate) struct Pain<'a> {
    pub(crate) id: &'a str,
    pub(crate) debtor: (&'a str, &'a str),
    pub(crate) creditor: (&'a str, &'a str),
    pub(crate) amount: &'a str,
    pub(crate) currency: &'a str,
    pub(crate) date: &'a str,
    pub(crate) control_sum: Option<&'a str>,
    pub(crate) possible_duplicate: Option<bool>,
}

impl Default for Pain<'_> {
    fn default() -> Self {
        Self {
            id: "M-1",
            debtor: ("ALPHDEFF", ALICE),
            creditor: ("BETAFRPP", BOB),
            amount: "10.00",
            currency: "EUR",
            date: "2025-03-03",
            control_sum: None,
            possible_duplicate: None,
        }
    }
}

impl Pain<'_> {
    pub(crate) fn xml(&self) -> String {
        let agent = |bic: &str| format!("<FinInstnId><BICFI>{bic}</BICFI></FinInstnId>");
        let account = |name: &str| {
            let is_iban = tally_iso20022::Iban::parse(name).is_some();
            let id = if is_iban {
                format!("<IBAN>{name}</IBAN>")
            } else {
                format!("<Othr><Id>{name}</Id></Othr>")
            };
            format!("<Id>{id}</Id>")
        };
        let sum = self.control_sum.map(|sum| format!("<CtrlSum>{sum}</CtrlSum>")).unwrap_or_default();
        let document = format!(
            r#"<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"><CstmrCdtTrfInitn><GrpHdr><MsgId>{id}</MsgId><CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs>{sum}<InitgPty><Nm>X</Nm></InitgPty></GrpHdr><PmtInf><PmtInfId>P</PmtInfId><PmtMtd>TRF</PmtMtd><ReqdExctnDt><Dt>{date}</Dt></ReqdExctnDt><Dbtr><Nm>D</Nm></Dbtr><DbtrAcct>{debtor}</DbtrAcct><DbtrAgt>{debtor_agent}</DbtrAgt><CdtTrfTxInf><PmtId><EndToEndId>E</EndToEndId></PmtId><Amt><InstdAmt Ccy="{currency}">{amount}</InstdAmt></Amt><CdtrAgt>{creditor_agent}</CdtrAgt><Cdtr><Nm>C</Nm></Cdtr><CdtrAcct>{creditor}</CdtrAcct></CdtTrfTxInf></PmtInf></CstmrCdtTrfInitn></Document>"#,
            id = self.id,
            date = self.date,
            debtor = account(self.debtor.1),
            debtor_agent = agent(self.debtor.0),
            currency = self.currency,
            amount = self.amount,
            creditor = account(self.creditor.1),
            creditor_agent = agent(self.creditor.0),
        );
        let Some(copy) = self.possible_duplicate else { return document };
        let header = format!(
            r#"<AppHdr xmlns="urn:iso:std:iso:20022:tech:xsd:head.001.001.01"><Fr><FIId>{0}</FIId></Fr><To><FIId>{0}</FIId></To><BizMsgIdr>B</BizMsgIdr><MsgDefIdr>pain.001.001.09</MsgDefIdr><CreDt>2025-03-03T09:00:00Z</CreDt><PssblDplct>{copy}</PssblDplct></AppHdr>"#,
            agent(self.debtor.0)
        );
        format!("<message>{header}{document}</message>")
    }

    /// Writes it to a file of that directory.
    pub(crate) fn write(&self, directory: &TempDir) -> PathBuf {
        write(directory, &format!("{}.xml", self.id), self.xml().as_bytes())
    }
}

pub(crate) fn write(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
