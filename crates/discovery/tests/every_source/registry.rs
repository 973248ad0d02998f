//! A server that sources ask, as the suite sees it.

use super::gate::Gate;

/// What plays the server of a source, or runs the real one. Dropping it ends it.
pub(crate) trait Registry {
    /// Whether it can be run here. `false`: it says why, and the test is skipped.
    fn is_here() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Starts with no endpoints.
    fn start() -> Self
    where
        Self: Sized;

    /// The argument of `discover:` in YAML: the source's name and its map, with times as short as they may be.
    fn argument(&self) -> String;

    /// The argument of one of `route_sources:`, where it is another one. What is published are its documents then.
    fn documents(&self) -> String {
        self.argument()
    }

    /// `127.0.0.1` at these ports are the endpoints from now on.
    fn publish(&mut self, ports: &[u16]);

    /// The door before its server, through which it goes and comes back. `None`: it does that by itself, below.
    fn gate(&self) -> Option<&Gate> {
        None
    }

    /// The server is gone.
    fn cut(&mut self) {
        self.gate().iter().for_each(|gate| gate.cut());
    }

    /// It answers what nobody can understand.
    fn garble(&mut self) {
        self.gate().iter().for_each(|gate| gate.garble());
    }

    /// It takes connections and says nothing. `false`: that cannot happen to it.
    fn freeze(&mut self) -> bool {
        self.gate().map(Gate::freeze).is_some()
    }

    /// It is there again and well.
    fn mend(&mut self) {
        self.gate().iter().for_each(|gate| gate.mend());
    }

    /// Connections of the source that are open.
    fn connections(&self) -> usize {
        self.gate().map_or(0, Gate::connections)
    }
}
