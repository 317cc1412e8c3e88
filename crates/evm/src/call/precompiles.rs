//! Precompiled contracts that a call may move away or replace.

use alloy_primitives::Address;
use alloy_primitives::map::{AddressMap, AddressSet};
use revm::context_interface::{Cfg, ContextTr};
use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, InterpreterResult};
use revm::primitives::hardfork::SpecId;

/// The precompiled contracts of a fork, some of them elsewhere or gone.
#[derive(Clone, Debug)]
pub(crate) struct Precompiled {
    original: EthPrecompiles,
    /// Where one is now, to where it was; empty as long as nothing was moved.
    moved: AddressMap<Address>,
    addresses: AddressSet,
}

impl Precompiled {
    pub(crate) fn new(spec: SpecId) -> Self {
        let original = EthPrecompiles::new(spec);
        let addresses = original.warm_addresses().clone();
        Self { original, moved: AddressMap::default(), addresses }
    }

    pub(crate) fn is_precompile(&self, address: &Address) -> bool {
        self.addresses.contains(address)
    }

    /// Where the precompiled contracts are.
    pub(crate) fn addresses(&self) -> &AddressSet {
        &self.addresses
    }

    /// Puts a copy of the one at `from` to `to`.
    pub(crate) fn copy(&mut self, from: Address, to: Address) {
        let original = self.moved.get(&from).copied().unwrap_or(from);
        self.moved.insert(to, original);
        self.addresses.insert(to);
    }

    pub(crate) fn remove(&mut self, address: Address) {
        self.addresses.remove(&address);
        self.moved.remove(&address);
    }
}

impl<C: ContextTr> PrecompileProvider<C> for Precompiled {
    type Output = InterpreterResult;

    fn set_spec(&mut self, _: <C::Cfg as Cfg>::Spec) -> bool {
        // Made for the fork of the one machine that it belongs to.
        false
    }

    fn run(&mut self, context: &mut C, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        if !self.addresses.contains(&inputs.bytecode_address) {
            return Ok(None);
        }
        match self.moved.get(&inputs.bytecode_address) {
            None => self.original.run(context, inputs),
            Some(original) => {
                let inputs = CallInputs { bytecode_address: *original, ..inputs.clone() };
                self.original.run(context, &inputs)
            }
        }
    }

    /// Those of the fork: what was moved costs what it did.
    fn warm_addresses(&self) -> &AddressSet {
        self.original.warm_addresses()
    }

    fn contains(&self, address: &Address) -> bool {
        self.addresses.contains(address)
    }
}
