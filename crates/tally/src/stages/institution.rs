//! Whose stages run from a directory: everybody's, where it is the operator's, or one institution's own.

use super::ClusterConfiguration;
use crate::configuration::Configuration;
use std::path::PathBuf;
use tally_ledger::ParticipantId;
use tally_settlement::process::Role;

/// Why a stage does not run from this directory.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstitutionError {
    /// The directory is an institution's, and the stage is not.
    #[error(
        "this directory is {institution}'s own: its approver and its updater run from it, and the {stage} is the operator's"
    )]
    OperatorsStage {
        /// Whose directory it is.
        institution: String,
        /// The stage that was asked for.
        stage: &'static str,
    },
    /// The directory is one institution's, and the stage was to work for another.
    #[error(
        "this directory is {institution}'s own, and {asked}'s stages run from {asked}'s: leave out --participant {asked}"
    )]
    SomebodyElses {
        /// Whose directory it is.
        institution: String,
        /// For whom the stage was to work.
        asked: String,
    },
    /// A stage was to work for nobody's institution.
    #[error("--participant {asked}: the network has no such participant")]
    Unknown {
        /// What was asked for.
        asked: String,
    },
    /// The stage is not split by participant.
    #[error("--participant is for approvers and updaters: a {stage} works for everybody")]
    Everybodys {
        /// The stage that was asked for.
        stage: &'static str,
    },
    /// The key with which the stage signs is not there.
    #[error(
        "{bic}'s approvals are signed with its key, and {} is not there: put it there; where {bic} runs its own \
         approver, [principals] in cluster.toml names it, and it is left out here", path.display()
    )]
    NoKey {
        /// Whose key.
        bic: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// The key in the file is another than everybody knows.
    #[error(
        "{} does not hold {bic}'s key as network.toml has it: what it signs would be {bic}'s to nobody", path.display()
    )]
    WrongKey {
        /// Whose key it should be.
        bic: String,
        /// The file.
        path: PathBuf,
    },
}

/// For whom a stage works, if `asked` are the participants that it is to work for: all that do
/// not run their own stages, if nobody is named; in an institution's directory that institution.
///
/// # Errors
/// When the stage does not run from this directory, or not for one of those.
pub fn works_for(
    role: Role,
    asked: &[String],
    cluster: &ClusterConfiguration,
    network: &Configuration,
) -> Result<Vec<ParticipantId>, InstitutionError> {
    let stage = role.name();
    let split = matches!(role, Role::Approver | Role::Updater);
    if let Some(institution) = &cluster.institution {
        let institution = institution.clone();
        if !split {
            return Err(InstitutionError::OperatorsStage { institution, stage });
        }
        if let Some(asked) = asked.iter().find(|asked| **asked != institution) {
            return Err(InstitutionError::SomebodyElses { institution, asked: asked.clone() });
        }
    }
    let participants = &network.participants;
    if let Some(asked) = asked.iter().find(|asked| participants.iter().all(|p| p.bic != **asked)) {
        return Err(InstitutionError::Unknown { asked: asked.clone() });
    }
    if !asked.is_empty() && !split && role != Role::Gateway {
        return Err(InstitutionError::Everybodys { stage });
    }
    let works = |bic: &String| match &cluster.institution {
        _ if !asked.is_empty() => asked.contains(bic),
        Some(institution) => bic == institution,
        None => role == Role::Gateway || !cluster.principals.contains_key(bic),
    };
    let ids = (0u16..).map(ParticipantId).zip(participants);
    Ok(ids.filter(|(_, participant)| works(&participant.bic)).map(|(id, _)| id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Configuration {
        let key = tally_crypto::SigningKey::from_seed([1; 32]).public_key();
        let one = |bic: &str| {
            format!(
                "[[participants]]\nbic = \"{bic}\"\nname = \"O=X,C=DE\"\nkind = \"bank\"\nkey = \"{key}\"\n"
            )
        };
        let text = format!(
            "assets = []\n[network]\nid = \"0000000000000000000000000000000000000000000000000000000000000000\"\nlongest_validity_ms = 1\n{}{}{}",
            one("TSCBDEFF"),
            one("ALPHDEFF"),
            one("BETAFRPP")
        );
        toml::from_str(&text).unwrap()
    }

    fn asked(
        role: Role,
        bics: &[&str],
        cluster: &ClusterConfiguration,
    ) -> Result<Vec<usize>, InstitutionError> {
        let bics: Vec<_> = bics.iter().map(|bic| (*bic).to_owned()).collect();
        let works_for = works_for(role, &bics, cluster, &network())?;
        Ok(works_for.into_iter().map(ParticipantId::index).collect())
    }

    #[test]
    fn the_operator_works_for_all_that_do_not_run_their_own_stages() {
        let mut cluster = ClusterConfiguration::default();
        assert_eq!(asked(Role::Updater, &[], &cluster), Ok(vec![0, 1, 2]));
        cluster.principals.insert("ALPHDEFF".to_owned(), "User:alpha".to_owned());
        assert_eq!(asked(Role::Approver, &[], &cluster), Ok(vec![0, 2]));
        assert_eq!(asked(Role::Approver, &["ALPHDEFF"], &cluster), Ok(vec![1]));
        assert_eq!(asked(Role::Gateway, &[], &cluster), Ok(vec![0, 1, 2]), "it answers about everybody");
        assert_eq!(asked(Role::Gateway, &["BETAFRPP"], &cluster), Ok(vec![2]));
        let unknown = InstitutionError::Unknown { asked: "GAMMFRPP".to_owned() };
        assert_eq!(asked(Role::Updater, &["GAMMFRPP"], &cluster), Err(unknown));
        let everybodys = InstitutionError::Everybodys { stage: "scheduler" };
        assert_eq!(asked(Role::Scheduler, &["ALPHDEFF"], &cluster), Err(everybodys));
    }

    #[test]
    fn from_an_institutions_directory_its_own_stages_run_and_no_others() {
        let cluster = ClusterConfiguration {
            institution: Some("ALPHDEFF".to_owned()),
            ..ClusterConfiguration::default()
        };
        for role in [Role::Approver, Role::Updater] {
            assert_eq!(asked(role, &[], &cluster), Ok(vec![1]));
            assert_eq!(asked(role, &["ALPHDEFF"], &cluster), Ok(vec![1]));
            let refused = asked(role, &["ALPHDEFF", "BETAFRPP"], &cluster);
            assert!(
                matches!(&refused, Err(InstitutionError::SomebodyElses { asked, .. }) if asked == "BETAFRPP"),
                "{refused:?}"
            );
        }
        for role in [Role::Gateway, Role::Scheduler, Role::Assembler, Role::Sequencer] {
            let refused = asked(role, &[], &cluster);
            assert!(matches!(refused, Err(InstitutionError::OperatorsStage { .. })), "{refused:?}");
        }
    }
}
