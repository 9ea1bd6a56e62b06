//! The faults of a world.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::ApiServer;
use crate::random::pick;
use crate::server::{Damage, Fault, Lag, Route, Server, Stop, Verb};

impl ApiServer {
    /// Injects faults for some time.
    pub(crate) async fn fail(self, mut rng: Rng) {
        let most = pick(&mut rng, [300, 3_000, 20_000]);
        for _ in 0..rng.usize(..16) {
            sleep(Duration::from_millis(rng.u64(..most))).await;
            self.recorder.note("faults", self.inject(&mut rng));
        }
    }

    /// Injects a random fault. Returns its description.
    pub(crate) fn inject(&self, rng: &mut Rng) -> String {
        let number = rng.usize(..self.servers.len());
        let Some(server) = self.servers.get(number) else { return String::new() };
        if self.is_damaged && rng.bool() {
            return format!("server {number}: {}", self.inject_damage(number, rng));
        }
        let described = match rng.u8(..11) {
            10 => {
                let route = if rng.bool() { Route::Random } else { Route::To(number) };
                self.balancer.route(route);
                return format!("routes requests: {route:?}");
            }
            8 | 9 => {
                self.expire(number);
                "expires all versions, and breaks all watches".into()
            }
            0 => {
                self.both(number).for_each(Server::break_watches);
                "breaks all watches".into()
            }
            1 | 2 => {
                let version = rng.u64(..=server.position());
                self.cluster.compact(version);
                self.both(number).for_each(|server| server.drop_events(version));
                format!("compacts at {version}")
            }
            3 => {
                self.both(number).for_each(Server::restart);
                "restarts the server".into()
            }
            4 => {
                let lags = [Lag::None, Lag::After(Duration::from_millis(rng.u64(..20_000))), Lag::Stopped];
                let lag = pick(rng, lags);
                self.both(number).for_each(|server| server.set_lag(lag));
                format!("the watch cache: {lag:?}")
            }
            5 => {
                self.cluster.skip(rng.u64(1..5));
                "writes of other resources".into()
            }
            _ => {
                let fault = fault_of_one_request(rng);
                server.plan(None, fault);
                format!("the next request: {fault:?}")
            }
        };
        format!("server {number}: {described}")
    }

    /// Damages the next event, or the next list, which is then needed. Returns its description.
    fn inject_damage(&self, number: usize, rng: &mut Rng) -> String {
        let damage = pick(rng, [Damage::Event, Damage::Name, Damage::Kind, Damage::Version]);
        let is_list = match damage {
            Damage::Event => false,
            Damage::Name => rng.bool(),
            Damage::Kind | Damage::Version => true,
        };
        if is_list {
            self.expire(number);
        }
        let verb = if is_list { Verb::List } else { Verb::Watch };
        if let Some(server) = self.servers.get(number) {
            server.plan(verb, Fault::Damaged(damage));
        }
        format!("the next {verb:?}: {damage:?}")
    }

    /// Expires all versions of a server, and breaks its watches.
    fn expire(&self, number: usize) {
        let version = self.servers.get(number).map_or(0, Server::position);
        self.cluster.compact(version);
        for server in self.both(number) {
            server.drop_events(version);
            server.break_watches();
        }
    }
}

/// Returns a random fault of the next request.
fn fault_of_one_request(rng: &mut Rng) -> Fault {
    let stop = pick(rng, [Stop::Broken, Stop::Ended, Stop::Silent]);
    let faults = [
        Fault::Status { code: pick(rng, [404, 410, 429, 500, 503, 504]), retry_after: None },
        Fault::Busy { code: pick(rng, [429, 503]), seconds: rng.u32(1..60) },
        Fault::Stop { bytes: rng.usize(..2_000), stop },
        Fault::Delay(Duration::from_millis(rng.u64(..10_000))),
        Fault::Refused,
        Fault::NoAnswer,
        Fault::NoBookmarks,
    ];
    pick(rng, faults)
}
