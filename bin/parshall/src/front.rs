//! The front ends of a router: where each listens, and starting and stopping them together.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use parshall_api::{ApiConfig, ApiServer};
use parshall_cli::{CliServer, Protocol, ServerConfig};
use parshall_command::Request;
use parshall_config::HttpSettings;
use parshall_control::Router;
use parshall_control::run::Wakeup;
use parshall_stats_segment::StatsServer;
use parshall_web::{HttpConfig, HttpServer, Token};

/// Where VPP has its sockets.
const VPP_RUN: &str = "/run/vpp";

/// A socket, and whether the router can do without.
pub struct Optional {
    path: PathBuf,
    /// Nobody asked for it: that another router has it is told and no error.
    optional: bool,
}

impl Optional {
    /// One that was asked for.
    pub fn no(path: PathBuf) -> Optional {
        Optional {
            path,
            optional: false,
        }
    }
}

/// Where a router listens.
pub struct Sockets {
    /// For `parshall ctl`.
    pub command: PathBuf,
    /// Group that may use them all.
    pub group: Option<String>,
    /// For VPP's `vppctl`.
    pub vppctl: Vec<PathBuf>,
    /// For readers of statistics.
    pub stats: Vec<Optional>,
    /// For clients of the binary API.
    pub api: Vec<Optional>,
    /// Group that may use the binary API, where that is another.
    pub api_group: Option<String>,
    /// Bytes of the statistics segment.
    pub stats_size: usize,
    /// For metrics and the API over HTTP.
    pub http: HttpSettings,
}

impl Sockets {
    /// The command socket, and beside it the others that a router has by itself.
    pub fn beside(command: &Path, group: Option<String>) -> Sockets {
        // Routers that share a folder have differently named command sockets.
        let stem = command.file_stem().unwrap_or_default().to_string_lossy();
        let beside = |name: &str| Optional {
            path: command.with_file_name(match &*stem {
                "cli" => format!("{name}.sock"),
                other => format!("{other}-{name}.sock"),
            }),
            optional: true,
        };
        Sockets {
            command: command.to_owned(),
            group,
            vppctl: Vec::new(),
            stats: vec![beside("stats")],
            api: vec![beside("api")],
            api_group: None,
            stats_size: 32 << 20,
            http: HttpSettings::default(),
        }
    }

    /// Adds VPP's own places.
    pub fn where_vpp_has_them(&mut self) {
        let place = |name: &str| Path::new(VPP_RUN).join(name);
        self.vppctl.push(place("cli.sock"));
        self.stats.push(Optional::no(place("stats.sock")));
        self.api.push(Optional::no(place("api.sock")));
    }
}

/// What listens.
pub struct FrontEnds {
    servers: Vec<CliServer>,
    stats: Vec<StatsServer>,
    apis: Vec<ApiServer>,
    http: Option<HttpServer>,
}

impl FrontEnds {
    /// Starts all; requests for commands come to the receiver.
    ///
    /// # Errors
    /// The first that cannot be had.
    pub fn start(
        sockets: &Sockets,
        router: &mut Router,
        wakeup: &Wakeup,
    ) -> Result<(FrontEnds, Receiver<Request>), String> {
        let config = |path: &Path| ServerConfig::new(path, sockets.group.clone());
        let (commands, requests) = CliServer::start(config(&sockets.command), wakeup.waker())
            .map_err(|e| e.to_string())?;
        let mut front = FrontEnds {
            servers: vec![commands],
            stats: Vec::new(),
            apis: Vec::new(),
            http: serve_http(&sockets.http, wakeup)?,
        };
        for path in &sockets.vppctl {
            let requests = front.servers[0].requests();
            let server =
                CliServer::listen(config(path), Protocol::Vppctl, requests, wakeup.waker());
            front.servers.push(server.map_err(|e| e.to_string())?);
        }
        front.share_statistics(sockets, router, wakeup)?;
        front.serve_api(sockets, wakeup)?;
        Ok((front, requests))
    }

    fn share_statistics(
        &mut self,
        sockets: &Sockets,
        router: &mut Router,
        wakeup: &Wakeup,
    ) -> Result<(), String> {
        let cannot = |e: std::io::Error| format!("statistics segment: {e}");
        let segment = router.open_statistics(sockets.stats_size).map_err(cannot)?;
        for socket in &sockets.stats {
            let asker = wakeup.asker();
            // A reader may look once and go: what it finds has to be of now.
            let refresh = move || {
                asker.ask(Router::show_statistics);
            };
            let theirs = segment.try_clone().map_err(cannot)?;
            let group = sockets.group.as_deref();
            match StatsServer::start(&socket.path, group, theirs, refresh) {
                Ok(server) => self.stats.push(server),
                Err(error) if socket.optional => {
                    tracing::warn!("no statistics for others: {error}")
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn serve_api(&mut self, sockets: &Sockets, wakeup: &Wakeup) -> Result<(), String> {
        let group = sockets.api_group.as_ref().or(sockets.group.as_ref());
        for socket in &sockets.api {
            let config = ApiConfig::new(&socket.path, group.cloned());
            match ApiServer::start(config, wakeup.asker()) {
                Ok(server) => self.apis.push(server),
                Err(error) if socket.optional => tracing::warn!("no binary API: {error}"),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Ends all: replies already given are still sent. The router must have ended, and said so to whoever asks.
    pub fn stop(&mut self) {
        self.stats.clear();
        self.apis.iter_mut().for_each(ApiServer::stop);
        self.http.iter_mut().for_each(HttpServer::stop);
        self.servers.iter_mut().for_each(CliServer::stop);
    }
}

/// Serves metrics and the API, if they are asked for.
fn serve_http(settings: &HttpSettings, wakeup: &Wakeup) -> Result<Option<HttpServer>, String> {
    if !settings.is_on() {
        return Ok(None);
    }
    let token = settings.token_file.as_deref().map(Token::load).transpose();
    let config = HttpConfig {
        listen: settings.listen,
        socket: settings.socket.clone(),
        group: settings.group.clone(),
        token: token.map_err(|e| format!("http.token-file: {e}"))?,
        commands: settings.commands,
    };
    let server = HttpServer::start(config, wakeup.asker()).map_err(|e| e.to_string())?;
    if let Some(address) = server.address() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    Ok(Some(server))
}
