//! Who may address this server from a browser: host names (against DNS rebinding) and origins (CORS).

/// Names under which the node may be addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    /// Any; a request needs no `Host` header either.
    Any,
    /// These, without ports, in any case.
    List(Vec<String>),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::List(vec!["localhost".into(), "127.0.0.1".into()])
    }
}

impl Hosts {
    /// Reads `host-allowlist`: names, or `*` or `all` for any.
    #[must_use]
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        if names.iter().any(|name| name == "*" || name == "all") { Self::Any } else { Self::List(names) }
    }

    /// Whether a request with this `Host` header, if it had one, is meant for this node.
    #[must_use]
    pub fn allow(&self, header: Option<&str>) -> bool {
        let Self::List(names) = self else { return true };
        let Some(header) = header else { return false };
        let name = host_name(header);
        names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// The name in `name:port`, `[v6]:port` or `name`.
fn host_name(header: &str) -> &str {
    if let Some(rest) = header.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match header.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => header,
    }
}

/// Pages that a browser may let read answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origins {
    /// None.
    #[default]
    None,
    /// All.
    Any,
    /// Those with these origins, as `https://example.org`, or on these hosts, as `example.org`.
    List(Vec<String>),
}

impl Origins {
    /// Reads `rpc-http-cors-origins`: origins, `all` or `*` for any, `none` for none.
    #[must_use]
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> =
            names.into_iter().map(|name| name.trim().trim_end_matches('/').to_ascii_lowercase()).collect();
        if names.iter().any(|name| name == "*" || name == "all") {
            return Self::Any;
        }
        if names.is_empty() || names.iter().any(|name| name == "none") {
            return Self::None;
        }
        Self::List(names)
    }

    /// Whether a page of this origin may call.
    #[must_use]
    pub fn allow(&self, origin: &str) -> bool {
        match self {
            Self::None => false,
            Self::Any => true,
            Self::List(names) => {
                let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
                names.iter().any(|name| {
                    name.eq_ignore_ascii_case(origin)
                        || name.eq_ignore_ascii_case(host)
                        || name.eq_ignore_ascii_case(host_name(host))
                })
            }
        }
    }
}
