use super::{NotUnderstood, json};
use crate::types::{
    AnnouncedParameters, Drain, NetworkMap, NetworkNotary, NetworkParty, NodeInfo, NotaryKind, Parameters,
};
use crate::wire;

fn kind_number(kind: Option<NotaryKind>) -> i32 {
    match kind {
        None => wire::NotaryKind::Unspecified,
        Some(NotaryKind::NonValidating) => wire::NotaryKind::NonValidating,
        Some(NotaryKind::Validating) => wire::NotaryKind::Validating,
    }
    .into()
}

fn kind(field: &'static str, number: i32) -> Result<Option<NotaryKind>, NotUnderstood> {
    match wire::NotaryKind::try_from(number) {
        Ok(wire::NotaryKind::Unspecified) => Ok(None),
        Ok(wire::NotaryKind::NonValidating) => Ok(Some(NotaryKind::NonValidating)),
        Ok(wire::NotaryKind::Validating) => Ok(Some(NotaryKind::Validating)),
        Err(_) => Err(NotUnderstood { field, what: number.to_string() }),
    }
}

impl From<Drain> for wire::DrainResponse {
    fn from(drain: Drain) -> Self {
        let Drain { draining, under_way, for_a_person, waiting } = drain;
        Self { draining, under_way, for_a_person, waiting }
    }
}

impl From<wire::DrainResponse> for Drain {
    fn from(drain: wire::DrainResponse) -> Self {
        let wire::DrainResponse { draining, under_way, for_a_person, waiting } = drain;
        Self { draining, under_way, for_a_person, waiting }
    }
}

impl From<Parameters> for wire::ParametersResponse {
    fn from(found: Parameters) -> Self {
        let Parameters { epoch, parameters, announced, accepted, missing } = found;
        let announced = announced.map(|next| wire::AnnouncedParameters {
            epoch: next.epoch,
            in_force_from_ms: next.in_force_from_ms,
            parameters_json: next.parameters.to_string(),
        });
        Self { epoch, parameters_json: parameters.to_string(), announced, accepted, missing }
    }
}

impl TryFrom<wire::ParametersResponse> for Parameters {
    type Error = NotUnderstood;

    fn try_from(found: wire::ParametersResponse) -> Result<Self, NotUnderstood> {
        let announced = found.announced.map(|next| {
            Ok(AnnouncedParameters {
                epoch: next.epoch,
                in_force_from_ms: next.in_force_from_ms,
                parameters: json("announced.parameters_json", &next.parameters_json)?,
            })
        });
        Ok(Self {
            epoch: found.epoch,
            parameters: json("parameters_json", &found.parameters_json)?,
            announced: announced.transpose()?,
            accepted: found.accepted,
            missing: found.missing,
        })
    }
}

impl From<NodeInfo> for wire::NodeInfoResponse {
    fn from(info: NodeInfo) -> Self {
        Self {
            name: info.name,
            key: info.key,
            addresses: info.addresses,
            version: info.version,
            notary: kind_number(info.notary),
            started_at_ms: info.started_at_ms,
            now_ms: info.now_ms,
            unfinished_flows: info.unfinished_flows,
        }
    }
}

impl TryFrom<wire::NodeInfoResponse> for NodeInfo {
    type Error = NotUnderstood;

    fn try_from(info: wire::NodeInfoResponse) -> Result<Self, NotUnderstood> {
        Ok(Self {
            name: info.name,
            key: info.key,
            addresses: info.addresses,
            version: info.version,
            notary: kind("notary", info.notary)?,
            started_at_ms: info.started_at_ms,
            now_ms: info.now_ms,
            unfinished_flows: info.unfinished_flows,
        })
    }
}

impl From<NetworkMap> for wire::NetworkMapResponse {
    fn from(map: NetworkMap) -> Self {
        let parties = map.parties.into_iter().map(|party| wire::NetworkParty {
            name: party.name,
            key: party.key,
            addresses: party.addresses,
            serial: party.serial,
        });
        let notaries = map.notaries.into_iter().map(|notary| wire::NetworkNotary {
            name: notary.name,
            key: notary.key,
            kind: kind_number(Some(notary.kind)),
        });
        Self {
            parties: parties.collect(),
            notaries: notaries.collect(),
            parameters_epoch: map.parameters_epoch,
            parameters_json: map.parameters.to_string(),
        }
    }
}

impl TryFrom<wire::NetworkMapResponse> for NetworkMap {
    type Error = NotUnderstood;

    fn try_from(map: wire::NetworkMapResponse) -> Result<Self, NotUnderstood> {
        let parties = map.parties.into_iter().map(|party| NetworkParty {
            name: party.name,
            key: party.key,
            addresses: party.addresses,
            serial: party.serial,
        });
        let notaries = map.notaries.into_iter().map(|notary| {
            let kind = kind("kind", notary.kind)?
                .ok_or_else(|| NotUnderstood { field: "kind", what: "missing".to_owned() })?;
            Ok(NetworkNotary { name: notary.name, key: notary.key, kind })
        });
        Ok(Self {
            parties: parties.collect(),
            notaries: notaries.collect::<Result<_, _>>()?,
            parameters_epoch: map.parameters_epoch,
            parameters: json("parameters_json", &map.parameters_json)?,
        })
    }
}
