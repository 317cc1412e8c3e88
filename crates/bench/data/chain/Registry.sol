// SPDX-License-Identifier: Apache-2.0
// Registry.hex is its creation code by the solc that examples/chain/package.json names: optimizer on (200 runs),
// evmVersion shanghai, metadata without CBOR (appendCBOR false).
pragma solidity ^0.8.20;
contract Registry {
    struct Entry { address owner; uint64 block; }
    mapping(bytes32 => Entry) public entries;
    mapping(address => uint256) public registrations;
    event Registered(bytes32 indexed identity, address indexed owner);
    error AlreadyRegistered(bytes32 identity);
    function register(bytes32 identity, address owner) external {
        if (entries[identity].owner != address(0)) revert AlreadyRegistered(identity);
        entries[identity] = Entry(owner, uint64(block.number));
        registrations[owner] += 1;
        emit Registered(identity, owner);
    }
}
