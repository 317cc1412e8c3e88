use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// One thing that a user may be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// `flow:<name>`: start this flow.
    Flow(String),
    /// `flow:*`: start any flow.
    AnyFlow,
    /// `vault:read`: query and track the vault, read transactions and attachments.
    VaultRead,
    /// `flows:read`: list and follow flows.
    FlowsRead,
    /// `flows:operate`: pause, retry and kill flows.
    FlowsOperate,
    /// `network:read`: read the network map.
    NetworkRead,
    /// `attachments:write`: store attachments.
    AttachmentsWrite,
    /// `node:read`: read what the node is, which flows it has, and how far it is drained.
    NodeRead,
    /// `node:operate`: drain the node, and resume.
    NodeOperate,
}

/// A text is no permission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no permission; there are `flow:<name>`, `flow:*`, `vault:read`, `flows:read`, `flows:operate`, \
     `network:read`, `attachments:write`, `node:read` and `node:operate`"
)]
pub struct UnknownPermission(pub String);

impl FromStr for Permission {
    type Err = UnknownPermission;

    fn from_str(text: &str) -> Result<Self, UnknownPermission> {
        Ok(match text {
            "flow:*" => Self::AnyFlow,
            "vault:read" => Self::VaultRead,
            "flows:read" => Self::FlowsRead,
            "flows:operate" => Self::FlowsOperate,
            "network:read" => Self::NetworkRead,
            "attachments:write" => Self::AttachmentsWrite,
            "node:read" => Self::NodeRead,
            "node:operate" => Self::NodeOperate,
            other => match other.strip_prefix("flow:") {
                Some(flow) if !flow.is_empty() && !flow.contains(|c: char| c == '*' || c.is_whitespace()) => {
                    Self::Flow(flow.to_owned())
                }
                _ => return Err(UnknownPermission(other.to_owned())),
            },
        })
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flow(flow) => return write!(f, "flow:{flow}"),
            Self::AnyFlow => "flow:*",
            Self::VaultRead => "vault:read",
            Self::FlowsRead => "flows:read",
            Self::FlowsOperate => "flows:operate",
            Self::NetworkRead => "network:read",
            Self::AttachmentsWrite => "attachments:write",
            Self::NodeRead => "node:read",
            Self::NodeOperate => "node:operate",
        })
    }
}

/// What a user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// Everything, also what later versions add.
    All,
    /// These things and no others.
    Only(BTreeSet<Permission>),
}

impl Permissions {
    /// Whether they include a thing.
    pub fn allow(&self, wanted: &Permission) -> bool {
        match self {
            Self::All => true,
            Self::Only(set) => {
                set.contains(wanted)
                    || matches!(wanted, Permission::Flow(_)) && set.contains(&Permission::AnyFlow)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_permissions_are_one_to_one() {
        for text in [
            "flow:CashPay",
            "flow:*",
            "vault:read",
            "flows:read",
            "flows:operate",
            "network:read",
            "attachments:write",
            "node:read",
            "node:operate",
        ] {
            assert_eq!(
                text.parse::<Permission>().map(|permission| permission.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "all", "flow:", "flow:Cash*", "flow:A B", "vault:write", "VAULT:READ", "*"] {
            assert_eq!(text.parse::<Permission>(), Err(UnknownPermission(text.to_owned())));
        }
    }

    #[test]
    fn only_what_is_named_is_allowed() {
        let pay = Permission::Flow("CashPay".into());
        let issue = Permission::Flow("CashIssue".into());
        let one = Permissions::Only([pay.clone()].into());
        assert!(one.allow(&pay) && !one.allow(&issue) && !one.allow(&Permission::VaultRead));
        let any = Permissions::Only([Permission::AnyFlow].into());
        assert!(any.allow(&pay) && any.allow(&issue) && !any.allow(&Permission::FlowsOperate));
        assert!(Permissions::All.allow(&pay) && Permissions::All.allow(&Permission::NodeRead));
    }
}
