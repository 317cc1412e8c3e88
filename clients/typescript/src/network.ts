/** The network's configuration: who takes part and what is held. Signatures and legs are checked against it. */

import { accountNumber, settlementAccount } from "./account.js";
import { ArgumentError, NetworkMismatchError } from "./errors.js";
import { networkIdBytes } from "./hex.js";
import { formatJson, parseJson } from "./json.js";
import { conform, type Schemas } from "./schema.js";
import type { Leg } from "./transaction.js";

/** An account of the network. */
export interface AccountId {
  /** Position of the institution in the network's configuration. */
  readonly participant: number;
  /** Its number in the institution's books. */
  readonly number: number;
}

/** The configuration of a network, as `GET /v1/network` gives it. */
export class Network {
  /** What every signature covers: 64 lower-case hexadecimal digits, the hash of the network's genesis. */
  readonly id: string;
  /** How far ahead an expiry may lie, in milliseconds. */
  readonly longestValidityMs: bigint;

  /** @throws {DecodeError} when its id is none */
  constructor(readonly configuration: Schemas["Network"]) {
    networkIdBytes(configuration.id, "$.id");
    this.id = configuration.id;
    this.longestValidityMs = configuration.longest_validity_ms;
  }

  /** Reads what {@link Network.toJson} wrote. */
  static fromJson(text: string): Network {
    return new Network(conform("Network", parseJson(text, "network")));
  }

  /** The configuration as JSON: to keep it, and pin it when a client is made. */
  toJson(): string {
    return `${formatJson(this.configuration, 2)}\n`;
  }

  /** The position of the institution with that BIC; `XXX` names the head office and may be left out (ISO 9362). */
  participantId(bic: string): number | null {
    const head = (bic: string) => (bic.length === 11 && bic.endsWith("XXX") ? bic.slice(0, 8) : bic);
    return found(this.configuration.participants.findIndex((each) => head(each.bic) === head(bic)));
  }

  /** The position of the asset with that code. */
  assetId(code: string): number | null {
    return found(this.configuration.assets.findIndex((each) => each.code === code));
  }

  /** As {@link Network.participantId}. @throws {ArgumentError} when there is none */
  participant(bic: string): number {
    const id = this.participantId(bic);
    if (id === null) throw new ArgumentError(`network ${this.id} has no participant ${bic}`);
    return id;
  }

  /** The asset of that code with its position. @throws {ArgumentError} when there is none */
  asset(code: string): { id: number; exponent: number; settledAt: number } {
    const id = this.assetId(code);
    const asset = id === null ? undefined : this.configuration.assets[id];
    if (id === null || asset === undefined) {
      throw new ArgumentError(`network ${this.id} has no asset ${code}`);
    }
    return { id, exponent: asset.exponent, settledAt: asset.settled_at };
  }

  /** The number that a name means without asking a gateway: a number or a role such as `own:EUR`; `null` for an alias. */
  accountNumber(name: string): number | null {
    return accountNumber(this, name);
  }

  /**
   * The legs that move an amount from one account to another: two inside one institution, otherwise also those on the
   * settlement accounts at the asset's settlement institution.
   *
   * @param minorUnits not negative, as in {@link Leg.amount}; {@link parseAmount} makes them of a decimal
   */
  paymentLegs(from: AccountId, to: AccountId, assetCode: string, minorUnits: bigint): Leg[] {
    if (typeof minorUnits !== "bigint") {
      throw new TypeError("minor units are a bigint: parseAmount makes them of a decimal as text");
    }
    if (minorUnits < 0n)
      throw new ArgumentError("payments have a direction: an amount below zero is not paid");
    const { id: asset, settledAt } = this.asset(assetCode);
    const leg = (participant: number, account: number, amount: bigint) => ({
      participant,
      asset,
      account,
      amount,
    });
    const between = (holder: number, change: bigint) =>
      holder === settledAt ? [] : [leg(settledAt, settlementAccount(asset, holder), change)];
    const settlement =
      from.participant === to.participant
        ? []
        : [...between(from.participant, -minorUnits), ...between(to.participant, minorUnits)];
    return [
      leg(from.participant, from.number, -minorUnits),
      ...settlement,
      leg(to.participant, to.number, minorUnits),
    ];
  }

  /**
   * That `later` is this network at a later time: participants and assets are only ever added, at the end; limits and
   * credit may change.
   *
   * @throws {NetworkMismatchError} when it is not
   */
  mustContinueAs(later: Network): void {
    if (later.id !== this.id) {
      throw new NetworkMismatchError(`network ${this.id} is wanted, the gateway speaks for ${later.id}`);
    }
    const changed = (what: string) =>
      new NetworkMismatchError(`the gateway's network ${this.id} has another ${what} than was known`);
    this.configuration.participants.forEach(({ bic, key }, at) => {
      const now = later.configuration.participants[at];
      if (now?.bic !== bic || now.key !== key) throw changed(`participant ${at} (${bic})`);
    });
    this.configuration.assets.forEach((asset, at) => {
      const now = later.configuration.assets[at];
      const same =
        now?.code === asset.code &&
        now.kind === asset.kind &&
        now.exponent === asset.exponent &&
        now.settled_at === asset.settled_at;
      if (!same) throw changed(`asset ${at} (${asset.code})`);
    });
  }
}

function found(position: number): number | null {
  return position < 0 ? null : position;
}
