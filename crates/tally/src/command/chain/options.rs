//! A node's options on the command line and in the environment: Besu's names, as in its configuration file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command};
use tally_chain::setup::{Settings, Sources};

/// Named by the argument and the variable as by Besu.
const FILE: &str = "config-file";
/// An option of Besu's that a settlement network has too, with another meaning. In a file or the environment it is known.
const NOT_HERE: [&str; 1] = ["network"];
const HEADING: &str = "Options of the node (as in config.toml and BESU_… of the environment)";
const HEADING_OTHERS: &str = "Options of Besu that change nothing here, or are refused unless they are off";

/// Options of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeOptions {
    arguments: Vec<(String, String)>,
    file: Option<PathBuf>,
}

impl NodeOptions {
    /// All sources of the options of the node in `directory`.
    ///
    /// # Errors
    /// When a variable of the environment is not text.
    pub(super) fn sources(&self, directory: Option<&Path>) -> anyhow::Result<Sources> {
        let mut environment = Vec::new();
        for name in names() {
            let variable = Settings::variable(name);
            if let Some(value) = std::env::var_os(&variable) {
                environment.push((name.to_owned(), text(&variable, value)?));
            }
        }
        let file = self.file.clone();
        let file = file.or_else(|| directory.map(|directory| directory.join("config.toml")));
        let file = file.or_else(|| std::env::var_os(Settings::variable(FILE)).map(PathBuf::from));
        Ok(Sources { arguments: self.arguments.clone(), environment, file })
    }
}

fn text(variable: &str, value: OsString) -> anyhow::Result<String> {
    value.into_string().ok().with_context(|| format!("{variable} is not text"))
}

fn names() -> impl Iterator<Item = &'static str> {
    Settings::names().into_iter().chain(Settings::other_names())
}

impl clap::Args for NodeOptions {
    fn augment_args(command: Command) -> Command {
        let option = |name: &'static str, heading| {
            Arg::new(name)
                .long(name)
                .value_name("VALUE")
                .num_args(0..=1)
                .default_missing_value("true")
                .action(ArgAction::Append)
                .help_heading(heading)
                .hide_short_help(true)
        };
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .conflicts_with("directory")
            .help("The configuration file, where there is no DIRECTORY [environment: BESU_CONFIG_FILE]");
        let own = Settings::names().into_iter().map(|name| option(name, HEADING));
        let others = Settings::other_names().into_iter().filter(|name| !NOT_HERE.contains(name));
        command.arg(file).args(own).args(others.map(|name| option(name, HEADING_OTHERS)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for NodeOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self { file: matches.get_one::<PathBuf>(FILE).cloned(), arguments: Vec::new() };
        for name in names() {
            if let Ok(Some(values)) = matches.try_get_many::<String>(name) {
                // An option that is given several times is a list.
                let values: Vec<_> = values.map(String::as_str).collect();
                options.arguments.push((name.to_owned(), values.join(",")));
            }
        }
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
