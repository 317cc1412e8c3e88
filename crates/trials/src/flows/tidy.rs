//! What is left when all flows have ended: nothing.

use super::world::World;

impl World {
    /// When all flows have ended nothing is left of them: no lock, no fetched transaction, no message.
    pub(crate) fn is_tidy(&self) {
        for (node, machine) in self.machines.iter().enumerate() {
            let store = self.truth(node);
            let me = &machine.me.name;
            assert_eq!(store.unfinished_flows(None, 10).expect("the truth can be read"), [], "flows of {me}");
            assert_eq!(store.locks().expect("the truth can be read"), [], "locks of {me}");
            let audit = machine.disk.audit();
            assert_eq!(audit.begun.len(), audit.ended.len(), "every flow of {me} that began has ended");
            for flow in audit.begun.keys() {
                let row =
                    store.flow(*flow).expect("the truth can be read").expect("a flow that began is known");
                let tally_store::FlowStatus::Ended { outcome, .. } = row.status else {
                    panic!("it has ended")
                };
                assert_eq!(audit.ended.get(flow), Some(&outcome), "a flow of {me} ends in one way");
                assert_eq!(
                    store.dependencies(*flow, None, 1).expect("the truth can be read"),
                    [],
                    "kept by {me}"
                );
            }
            let queues = store.queues().expect("the truth can be read");
            for (peer, messages) in &audit.sent {
                let count = messages.len() as u64;
                let queue = queues.outbound.get(peer).copied().unwrap_or_default();
                assert_eq!((queue.sent, queue.acknowledged), (count, count), "from {me} to {peer}");
                if peer != me {
                    let receiver = self.machines[self.index(peer)].disk.audit().received.get(me).copied();
                    assert_eq!(receiver, Some(count), "from {me} to {peer}");
                }
            }
            let core = machine.core.as_ref().expect("it runs");
            for signed in audit.recorded.values() {
                for state in signed.transaction().outputs_with_refs() {
                    assert_eq!(core.holder(&state.reference), None, "a state of {me} is held by nobody");
                }
            }
        }
    }
}
