//! What the examples share: a cluster, and for the HTTP examples a service that answers requests of the program itself.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "a part of example programs"
)]

use std::env;
use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;

use axum::Router;
use kinformer::CancellationToken;
use kinformer_apiserver::ApiServer;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The arguments `[KUBECONFIG] [--serve] [--listen ADDRESS]`. The options are for the HTTP examples.
#[derive(Default)]
struct Arguments {
    kubeconfig: Option<String>,
    serve: bool,
    listen: Option<String>,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let mut read = Self { kubeconfig: env::var("KUBECONFIG").ok(), ..Self::default() };
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match &*arg {
                "--serve" => read.serve = true,
                "--listen" => read.listen = Some(args.next().ok_or("--listen needs an address")?),
                option if option.starts_with('-') => return Err(format!("unknown option {option}")),
                _ => read.kubeconfig = Some(arg),
            }
        }
        Ok(read)
    }
}

/// A cluster, and its server if that is embedded.
pub struct Cluster {
    pub client: Client,
    server: Option<ApiServer>,
}

impl Cluster {
    /// Connects to the cluster of a kubeconfig, or starts one in this process with these objects.
    pub async fn connect(objects: impl IntoIterator<Item = Value>) -> Result<Self, Box<dyn Error>> {
        if let Some(kubeconfig) = Arguments::read()?.kubeconfig {
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            return Ok(Self { client: kinformer::client(config)?, server: None });
        }
        let server = ApiServer::builder().start().await?;
        for object in objects {
            server.create(object)?;
        }
        Ok(Self { client: kinformer::client(server.config()?)?, server: Some(server) })
    }

    /// Stops an embedded server.
    pub async fn stop(self) {
        if let Some(server) = self.server {
            server.shutdown().await;
        }
    }
}

/// Serves until Ctrl-C with the argument `--serve`. Otherwise sends these requests to itself and prints the answers.
pub async fn serve(router: Router, paths: &[&str]) -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read()?;
    let listener = listen(arguments.listen).await?;
    let address = listener.local_addr()?;
    eprintln!("serving on http://{address}");
    let stop = CancellationToken::new();
    let serve = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    let running = tokio::spawn(async { serve.await });
    if arguments.serve {
        for path in paths {
            eprintln!("  curl http://{address}{path}");
        }
        tokio::signal::ctrl_c().await?;
    } else {
        for path in paths {
            println!("GET {path}\n    {}", get(address, path).await?);
        }
    }
    stop.cancel();
    Ok(running.await??)
}

/// Listens on an address; by default on port 4000, or on a free one if that is taken.
async fn listen(address: Option<String>) -> std::io::Result<TcpListener> {
    match address {
        Some(address) => TcpListener::bind(address).await,
        None => match TcpListener::bind("127.0.0.1:4000").await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => TcpListener::bind("127.0.0.1:0").await,
            bound => bound,
        },
    }
}

/// Returns the status and the body of an answer.
async fn get(address: SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("not an HTTP answer")?;
    Ok(format!("{} {body}", head.split(' ').nth(1).unwrap_or_default()))
}
