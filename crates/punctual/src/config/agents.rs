//! Whether a worker's binaries are run by agents, and where those run.

use std::path::PathBuf;

use punctual_agent::{OtherServers, is_loopback, parse_servers};

use super::Config;
use crate::exit::usage;
use crate::input::io_reason;

/// Where an engine listens if nothing is said.
const SOCKETS: [&str; 2] = ["/run/podman/podman.sock", "/var/run/docker.sock"];

/// Certificates are handed over in a variable, which the kernel limits to 128 KiB.
const AUTHORITIES_BYTES_MAX: usize = 64 << 10;

/// The network of a container that is the machine's own.
const HOST_NETWORK: &str = "host";

/// The value of the setting `spawn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnMode {
    Process,
    Container,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spawn {
    /// No agents: the worker runs binaries itself.
    Never,
    Process,
    Container(ContainerPlace),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerPlace {
    pub(crate) socket: PathBuf,
    pub(crate) image: String,
    pub(crate) network: String,
}

#[derive(Debug, Clone)]
pub(crate) struct AgentsSettings {
    pub(crate) spawn: Spawn,
    /// Where the worker keeps what belongs to its agents.
    pub(crate) folder: PathBuf,
    server: Option<Vec<String>>,
    pub(crate) authorities: Option<String>,
}

impl AgentsSettings {
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let spawn = match config.spawn()? {
            None => Spawn::Never,
            Some(SpawnMode::Process) => Spawn::Process,
            Some(SpawnMode::Container) => Spawn::Container(container(config)?),
        };
        let folder = config.data_dir()?.join("agents");
        Ok(Self { spawn, folder, server: config.agent_server()?, authorities: config.agent_ca()? })
    }

    /// Where agents reach the servers that the worker reaches at `usual`.
    pub(crate) fn servers(&self, usual: &[String]) -> anyhow::Result<Vec<String>> {
        const FIX: &str = "set agent_server to an https address at which agents reach the servers";
        let servers = match &self.server {
            Some(servers) => servers.clone(),
            None => parse_servers(&usual.join(",")).map_err(|reason| usage(format!("server: {reason}"), FIX))?,
        };
        if self.is_apart()
            && let Some(server) = servers.iter().find(|server| is_loopback(server))
        {
            let fix = format!("{FIX}, or container_network to host");
            let message = format!("{server} cannot be reached from a container in a network of its own");
            return Err(usage(message, &fix));
        }
        Ok(servers)
    }

    /// Which servers besides those agents may be told of.
    pub(crate) fn others(&self) -> OtherServers {
        match &self.server {
            Some(_) => OtherServers::None,
            None if self.is_apart() => OtherServers::NotLoopback,
            None => OtherServers::All,
        }
    }

    /// Whether agents are in a network that is not the machine's.
    fn is_apart(&self) -> bool {
        match &self.spawn {
            Spawn::Never | Spawn::Process => false,
            Spawn::Container(place) => place.network != HOST_NETWORK,
        }
    }
}

fn container(config: &Config) -> anyhow::Result<ContainerPlace> {
    let image = config.container_image()?;
    if image.is_empty() {
        return Err(usage(
            "spawn is container, and container_image is not set",
            "name an image with this program as /punctual; docs/agents.md says how to make one",
        ));
    }
    Ok(ContainerPlace { socket: config.container_socket()?, image, network: config.container_network()? })
}

pub(super) fn socket(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        let there = SOCKETS.iter().map(PathBuf::from).find(|path| path.exists());
        return Ok(there.unwrap_or_else(|| SOCKETS[SOCKETS.len() - 1].into()));
    }
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if !path.is_absolute() {
        return Err(format!("`{text}` is not a socket of this machine, such as unix:///run/podman/podman.sock"));
    }
    Ok(path)
}

pub(super) fn authorities(path: &str) -> Result<String, String> {
    let pem = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {}", io_reason(&error)))?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(format!("{path} has no certificate in PEM"));
    }
    if pem.len() > AUTHORITIES_BYTES_MAX {
        return Err(format!("{path} is longer than {AUTHORITIES_BYTES_MAX} bytes; name only those that agents need"));
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::{Sources, Untrusted};
    use super::*;

    fn settings(environment: &[(&str, &str)]) -> anyhow::Result<AgentsSettings> {
        let lookup =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let written = tempfile::NamedTempFile::new().unwrap();
        let file = Some(written.path().to_owned());
        let sources = Sources { flags: &[], environment: &lookup, file, untrusted: Untrusted::Refuse };
        AgentsSettings::new(&Config::load(&sources)?)
    }

    fn here() -> Vec<String> {
        vec!["http://127.0.0.1:8020".to_owned()]
    }

    #[test]
    fn agents_are_wanted_only_where_the_settings_say_so() {
        assert_eq!(settings(&[]).unwrap().spawn, Spawn::Never);
        // What is set for other programs is no mistake of a worker without agents.
        assert_eq!(settings(&[("DOCKER_HOST", "tcp://elsewhere")]).unwrap().spawn, Spawn::Never);
        let process = settings(&[("PUNCTUAL_SPAWN", "process")]).unwrap();
        assert_eq!((&process.spawn, process.servers(&here()).unwrap()), (&Spawn::Process, here()));
        assert!(process.servers(&["http://10.0.0.1:8020".to_owned()]).is_err(), "the token is a secret");
        let container =
            [("PUNCTUAL_SPAWN", "container"), ("PUNCTUAL_CONTAINER_IMAGE", "punctual"), ("DOCKER_HOST", "unix:///a/b")];
        let Spawn::Container(place) = settings(&container).unwrap().spawn else { panic!() };
        assert_eq!((place.socket, place.network.as_str()), (PathBuf::from("/a/b"), "bridge"));
    }

    #[test]
    fn what_could_not_work_is_refused_with_what_to_do() {
        for (environment, answer) in [
            (vec![("PUNCTUAL_SPAWN", "vm")], "`vm` is none of process, container"),
            (vec![("PUNCTUAL_SPAWN", "container")], "container_image is not set"),
            (
                vec![
                    ("PUNCTUAL_SPAWN", "container"),
                    ("PUNCTUAL_CONTAINER_IMAGE", "x"),
                    ("DOCKER_HOST", "tcp://10.0.0.1:2375"),
                ],
                "setting container_socket (environment DOCKER_HOST): `tcp://10.0.0.1:2375` is not a socket",
            ),
            (vec![("PUNCTUAL_AGENT_SERVER", "http://a.example")], "would be sent there in the open"),
            (vec![("PUNCTUAL_AGENT_CA", "/nowhere.pem")], "cannot read /nowhere.pem"),
            (vec![("PUNCTUAL_AGENT_CA", "/dev/null")], "/dev/null has no certificate in PEM"),
        ] {
            let refused = settings(&environment).unwrap_err().to_string();
            assert!(refused.contains(answer), "{refused}");
        }
    }

    #[test]
    fn a_container_of_its_own_network_needs_an_address_outside() {
        let base = [("PUNCTUAL_SPAWN", "container"), ("PUNCTUAL_CONTAINER_IMAGE", "x")];
        let refused = settings(&base).unwrap().servers(&here()).unwrap_err().to_string();
        assert!(refused.contains("cannot be reached from a container"), "{refused}");
        let host = settings(&[&base[..], &[("PUNCTUAL_CONTAINER_NETWORK", "host")]].concat()).unwrap();
        assert_eq!((host.servers(&here()).unwrap(), host.others()), (here(), OtherServers::All));
        let tls = vec!["https://b.example".to_owned()];
        let apart = settings(&base).unwrap();
        assert_eq!((apart.servers(&tls).unwrap(), apart.others()), (tls, OtherServers::NotLoopback));
        let outside = settings(&[&base[..], &[("PUNCTUAL_AGENT_SERVER", "https://a.example")]].concat()).unwrap();
        assert_eq!(outside.servers(&here()).unwrap(), ["https://a.example"]);
        assert_eq!(outside.others(), OtherServers::None, "only the address that was named leads there");
    }

    #[test]
    fn authorities_are_read_from_their_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "-----BEGIN CERTIFICATE-----").unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        assert!(settings(&[("PUNCTUAL_AGENT_CA", &path)]).unwrap().authorities.is_some());
        writeln!(file, "{}", "A".repeat(AUTHORITIES_BYTES_MAX)).unwrap();
        assert!(settings(&[("PUNCTUAL_AGENT_CA", &path)]).is_err());
    }
}
