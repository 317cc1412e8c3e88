// Made from the gateway's OpenAPI document by tools/generate.mjs; not written by hand.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Answer of `GET /v1/accounts/{bic}/{account}`. */
        AccountBody: {
            /** @description Its IBAN or other alias. */
            alias?: string | null;
            /** @description Code of the asset that it holds. */
            asset: string;
            /** @description The balance as a decimal. */
            balance: string;
            /** @description How far below zero it may go, as a decimal: zero or negative. */
            floor: string;
            /** @description BIC. */
            institution: string;
            /**
             * Format: int64
             * @description The balance in minor units.
             */
            minor_units: bigint;
            /**
             * Format: int32
             * @description Its number in the institution's books.
             */
            number: number;
            /** @description Whose signature debits it: the customer's or, for an institution's own account, the institution's. */
            owner: string;
            /** @description Whether it takes part in payments. */
            status: components["schemas"]["AccountStatus"];
        };
        /** @description How an account is called. */
        AccountName: {
            /** @description IBAN or other alias, number, or role such as `own:EUR`. */
            account: string;
            /** @description BIC of the institution that holds it. */
            institution: string;
        };
        /**
         * @description Whether an account takes part in payments.
         * @enum {string}
         */
        AccountStatus: "open" | "frozen" | "closed";
        /** @description One institution's answer under its signature. */
        Approval: {
            /** Format: int32 */
            batch_len: number;
            /** Format: int32 */
            index: number;
            /** Format: int32 */
            participant: number;
            /** @description From the answer to the root of the institution's batch of answers, from below. */
            path: components["schemas"]["Sibling"][];
            signature: string;
            /**
             * Format: int32
             * @description 0 for yes, else the refusal's number.
             */
            verdict: number;
        };
        /** @description What accounts hold. */
        Asset: {
            /** @description ISO 4217 code or ISIN. */
            code: string;
            /**
             * Format: int32
             * @description Decimals of the minor unit.
             */
            exponent: number;
            kind: components["schemas"]["AssetKind"];
            /**
             * Format: int64
             * @description Minor units.
             */
            largest_payment: bigint;
            /**
             * Format: int32
             * @description Participant id of where the others hold settlement accounts in it.
             */
            settled_at: number;
        };
        /**
         * @description What an asset is.
         * @enum {string}
         */
        AssetKind: "currency" | "security";
        /** @description Answer of `GET /v1/assets`. */
        AssetsBody: {
            /** @description By asset id. */
            assets: components["schemas"]["AssetView"][];
        };
        /** @description What accounts hold. */
        AssetView: {
            /**
             * Format: int32
             * @description Its number in legs and proofs.
             */
            asset: number;
            /** @description ISO 4217 code or ISIN. */
            code: string;
            /**
             * Format: int32
             * @description Decimals of the minor unit.
             */
            exponent: number;
            /** @description What it is. */
            kind: components["schemas"]["AssetKind"];
            /** @description The largest payment, as a decimal. */
            largest_payment: string;
            /** @description BIC of the institution where the others hold settlement accounts in it. */
            settled_at: string;
        };
        /** @description Answer of `GET /v1/accounts/{bic}`. */
        BooksView: {
            /** @description BIC. */
            institution: string;
            /**
             * Format: int32
             * @description The number of the account that is opened next.
             */
            next_account: number;
        };
        /** @description Two heads and the proof that the later log extends the earlier one (RFC 9162, section 2.1.4). */
        Consistency: {
            first: components["schemas"]["SignedTreeHead"];
            /** @description Of witnesses on the first head; left out where there are none. */
            first_cosignatures?: components["schemas"]["HeadCosignature"][];
            path: string[];
            second: components["schemas"]["SignedTreeHead"];
            /** @description Of witnesses on the second head; left out where there are none. */
            second_cosignatures?: components["schemas"]["HeadCosignature"][];
        };
        /** @description What a transaction's id commits to. */
        Contents: {
            /** @description Hash of the payment message or account order, in hexadecimal. */
            details: string;
            /**
             * Format: int64
             * @description Milliseconds since the Unix epoch.
             */
            expiry: bigint;
            /**
             * Format: int32
             * @description 1 transfer, 2 issue, 3 redeem, 4 account order.
             */
            kind: number;
            legs: components["schemas"]["ProvenLeg"][];
            /** @description The network's id: 64 lower-case hexadecimal digits. */
            network: string;
            /** @description Participant ids of all whom it concerns, ascending. */
            participants: number[];
            uetr: string;
        };
        /** @description A transaction that wants signatures. */
        Draft: {
            /** @description Its id, which is what is signed; in hexadecimal. */
            id: string;
            /** @description Its legs, for people. */
            legs: components["schemas"]["LegView"][];
            /** @description Who must sign. */
            signers: string[];
            /** @description A batch of one, encoded and in hexadecimal. */
            transaction: string;
        };
        /** @description One entry of a statement. */
        EntryView: {
            /** @description What the account got, negative for a debit; a decimal. */
            amount: string;
            /** @description What it held then; a decimal. */
            balance: string;
            /**
             * Format: int64
             * @description Its place in the global order.
             */
            sequence: bigint;
            /** @description When, as an ISO 8601 time. */
            time: string;
            /** @description The transaction's reference. */
            uetr: string;
        };
        /** @enum {string} */
        EventKind: "outcome";
        /** @description A server-sent event, by its fields (WHATWG HTML, section 9.2.6). */
        EventView: {
            /** @description An `OutcomeView` as JSON. */
            data: string;
            event: components["schemas"]["EventKind"];
            /** @description The outcome's sequence number. */
            id: string;
        };
        /** @description A signature over a transaction's id. */
        GivenSignature: {
            /** @description Whose: an Ed25519 public key in hexadecimal. */
            key: string;
            /** @description Over the 32 bytes of the id: Ed25519 (RFC 8032), in hexadecimal. */
            signature: string;
        };
        /** @description An institution's signature, as a witness, on the tree head beside which it stands (C2SP tlog-cosignature). */
        HeadCosignature: {
            /**
             * Format: int32
             * @description Participant id of the witness, which is not the operator.
             */
            participant: number;
            /**
             * @description Ed25519, in hexadecimal, over the lines `cosignature/v1`, `time` and that time, the log's name
             *     (`tallystick.settlement/v2/` and the network's id), size, and root in base64, each with a newline.
             */
            signature: string;
            /**
             * Format: int64
             * @description When it signed, by its own clock, in seconds since the Unix epoch; below 2^63.
             */
            time_s: bigint;
        };
        /** @description Answer of `GET /health`. */
        HealthView: {
            /** @description Whether payments are taken. */
            healthy: boolean;
            /** @description One sentence. */
            text: string;
        };
        /** @description Answer of `GET /v1/institutions`. */
        InstitutionsBody: {
            /** @description By participant id. */
            institutions: components["schemas"]["InstitutionView"][];
        };
        /** @description A regulated institution. */
        InstitutionView: {
            /** @description ISO 9362. */
            bic: string;
            /** @description Its Ed25519 public key, in hexadecimal. */
            key: string;
            /** @description What it is. */
            kind: components["schemas"]["ParticipantKind"];
            /** @description X.500. */
            name: string;
            /**
             * Format: int32
             * @description Its number in legs, keys and proofs.
             */
            participant: number;
        };
        /** @description A leg, for people. */
        LegView: {
            /** @description The account's alias, number, or role. */
            account: string;
            /** @description The amount as a decimal, negative for a debit. */
            amount: string;
            /** @description Code of the asset. */
            asset: string;
            /** @description BIC. */
            institution: string;
        };
        /** @description The configuration on which all stages agree. */
        Network: {
            /** @description By asset id. */
            assets: components["schemas"]["Asset"][];
            /**
             * @description The network's id, to which every signature commits: BLAKE3 of its genesis file, 64
             *     lower-case hexadecimal digits.
             */
            id: string;
            /**
             * Format: int64
             * @description How far ahead an expiry may lie, in milliseconds; so long is every reference remembered.
             */
            longest_validity_ms: bigint;
            /** @description By participant id. */
            participants: components["schemas"]["Participant"][];
            signatures: components["schemas"]["SignaturePolicy"];
        };
        /** @description Answer of `GET /v1/network`. */
        NetworkView: {
            /** @description How the network is. */
            health: components["schemas"]["HealthView"];
            /** @description What each participant is, by participant id. */
            kinds: components["schemas"]["ParticipantKind"][];
            /** @description The configuration on which all stages agree. */
            network: components["schemas"]["Network"];
            /**
             * Format: int64
             * @description How many transactions have been decided.
             */
            sequence: bigint;
            /** @description By participant and asset, where there is anything. */
            totals: components["schemas"]["TotalView"][];
            tree_head?: components["schemas"]["SignedTreeHead"] | null;
        };
        /** @description Answer of `POST /v1/transactions`, `POST /v1/payments` and `POST /v1/accounts`: one for each transaction, in order. */
        OutcomesBody: {
            /** @description The outcomes. */
            outcomes: components["schemas"]["OutcomeView"][];
        };
        /** @description What became of one transaction. */
        OutcomeView: {
            first?: components["schemas"]["OutcomeView"] | null;
            /** @description The transaction's id, in hexadecimal. */
            id: string;
            reason?: components["schemas"]["Problem"] | null;
            /**
             * Format: int64
             * @description Its place in the global order, if it has one.
             */
            sequence?: bigint | null;
            /** @description How far it came. */
            status: components["schemas"]["Status"];
            /** @description When it was decided, as an ISO 8601 time. */
            time?: string | null;
            /** @description Its reference. */
            uetr: string;
        };
        /** @description A regulated institution. */
        Participant: {
            /** @description ISO 9362. */
            bic: string;
            /** @description Ed25519 public key, in hexadecimal. */
            key: string;
            /** @description X.500. */
            name: string;
            /** @description Asset id and minor units: how far below zero its settlement account may go. */
            settlement_floors: [
                number,
                bigint
            ][];
        };
        /**
         * @description What a participant is.
         * @enum {string}
         */
        ParticipantKind: "central-bank" | "bank" | "e-money-issuer" | "depository";
        /** @description Body of `POST /v1/payments/prepare`. */
        PaymentsBody: {
            /** @description 1 to 1000 payments. */
            payments: components["schemas"]["WantedPayment"][];
        };
        /** @description Answer of `POST /v1/iso20022/prepare` and `POST /v1/payments/prepare`. */
        PreparedBody: {
            /** @description One for each payment, in order. */
            payments: components["schemas"]["PreparedPayment"][];
            refused?: components["schemas"]["Problem"] | null;
        };
        /** @description A payment of a message: refused already, or ready to be signed. */
        PreparedPayment: {
            draft?: components["schemas"]["Draft"] | null;
            refused?: components["schemas"]["Problem"] | null;
            /** @description Its reference. */
            uetr: string;
        };
        /** @description Why something was refused: an ISO 20022 code and one sentence. */
        Problem: {
            /** @description The code, such as `AM04`. */
            code: string;
            /** @description What was wrong. */
            text: string;
        };
        /** @description The body of every answer that is an error: problem details (RFC 9457), as `application/problem+json`. */
        ProblemDetails: {
            /** @description A code of ISO 20022 where there is one, such as `AC01`, else a word such as `not-found`. */
            code: string;
            /** @description What was wrong with this request. */
            detail: string;
            /**
             * Format: int32
             * @description HTTP status.
             */
            status: number;
            /** @description The kind of problem in words that do not depend on the request. */
            title: string;
            /** @description What kind of problem it is: `urn:tallystick:problem:` and the code. */
            type: string;
        };
        /** @description Proof that a transaction has its outcome, for whoever holds the network's public keys. */
        Proof: {
            /** @description The institutions' answers. */
            approvals: components["schemas"]["Approval"][];
            /** @description Participant ids whose answers could not be shown. */
            missing: number[];
            receipt: components["schemas"]["Receipt"];
            transaction: components["schemas"]["Contents"];
            /**
             * Format: int32
             * @description 2.
             */
            version: number;
        };
        /** @description One leg: shown with the salt that shows that it belongs to the id, or its hash alone. */
        ProvenLeg: {
            hidden: string;
        } | {
            shown: {
                /** Format: int32 */
                account: number;
                /**
                 * Format: int64
                 * @description Minor units; negative for a debit.
                 */
                amount: bigint;
                /** Format: int32 */
                asset: number;
                /** Format: int32 */
                participant: number;
                salt: string;
            };
        };
        /** @description Proof that a transaction has its place and its verdict in the one global order. */
        Receipt: {
            /** Format: int64 */
            batch: bigint;
            /** @description Of witnesses on that head; left out where there are none, as in a network that runs in one process. */
            cosignatures?: components["schemas"]["HeadCosignature"][];
            /**
             * Format: int32
             * @description How many decisions its batch has.
             */
            count: number;
            /** @description From the decision to the root of its batch, from below; BLAKE3, in hexadecimal. */
            decision_path: string[];
            /**
             * Format: int64
             * @description Sequence number of the first decision of its batch.
             */
            first: bigint;
            head: components["schemas"]["SignedTreeHead"];
            /** @description The transaction's id, in hexadecimal. */
            id: string;
            /**
             * Format: int64
             * @description Which leaf of the Merkle log its batch is.
             */
            leaf: bigint;
            /** @description The root of its batch. */
            root: string;
            /** Format: int64 */
            scheduler: bigint;
            /**
             * Format: int64
             * @description Its place.
             */
            sequence: bigint;
            /**
             * Format: int64
             * @description When its batch was sequenced, in milliseconds since the Unix epoch.
             */
            timestamp: bigint;
            /** @description From the batch to the root of the Merkle log, from below; SHA-256, in hexadecimal. */
            tree_path: string[];
            /**
             * Format: int32
             * @description 0 for made, else the refusal's number.
             */
            verdict: number;
        };
        /** @description A hash beside the path from an answer to the root, BLAKE3 in hexadecimal. */
        Sibling: {
            left: string;
        } | {
            right: string;
        };
        /**
         * @description Which transactions need their payers' signatures.
         * @enum {string}
         */
        SignaturePolicy: "required" | "institutions-only";
        /** @description A signed draft. */
        SignedDraft: {
            /** @description Position of the payment in the message, from 0. */
            position: number;
            /** @description The batch of one, encoded and in hexadecimal. */
            transaction: string;
        };
        /** @description A draft and who signed it. */
        SignedPayment: {
            /** @description One signature of each of the draft's signers. */
            signatures: components["schemas"]["GivenSignature"][];
            /** @description The draft's transaction, as it was prepared. */
            transaction: string;
        };
        /** @description Body of `POST /v1/payments`. */
        SignedPaymentsBody: {
            /** @description 1 to 1000 payments. */
            payments: components["schemas"]["SignedPayment"][];
        };
        /** @description A head of the Merkle log and its operator's signature. */
        SignedTreeHead: {
            head: components["schemas"]["TreeHead"];
            /** @description Ed25519, in hexadecimal. */
            signature: string;
        };
        /** @description Answer of `GET /v1/accounts/{bic}/{account}/statement`, the newest entry first. */
        StatementBody: {
            /** @description The account now. */
            account: components["schemas"]["AccountBody"];
            /** @description The entries. */
            entries: components["schemas"]["EntryView"][];
            /**
             * Format: int64
             * @description What to give as `before` for the entries that follow; none when there are no more.
             */
            next?: bigint | null;
        };
        /**
         * @description How far a transaction came.
         * @enum {string}
         */
        Status: "ACSC" | "RJCT" | "PDNG";
        /** @description Body of `POST /v1/iso20022/submit`. The answer is a pain.002 to a pain.001, else a pacs.002. */
        SubmitBody: {
            /** @description The message as it was prepared, in base64. */
            message: string;
            /** @description The signed drafts: the payment's position in the message, and the batch of one in hexadecimal. */
            signed: components["schemas"]["SignedDraft"][];
        };
        /** @description What an institution holds and owes in one asset, in minor units. */
        TotalView: {
            /**
             * Format: int64
             * @description How many customers' accounts it has in it.
             */
            accounts: bigint;
            /** @description Code of the asset. */
            asset: string;
            /**
             * Format: int64
             * @description What its customers have.
             */
            customers: bigint;
            /** @description BIC. */
            institution: string;
            /**
             * Format: int64
             * @description What it issued.
             */
            issued: bigint;
            /**
             * Format: int64
             * @description What it has itself.
             */
            own: bigint;
            /**
             * Format: int64
             * @description What others have on settlement accounts with it.
             */
            settlement: bigint;
        };
        /** @description The state of the Merkle log at one moment (RFC 9162, section 4.10). */
        TreeHead: {
            /** @description SHA-256, in hexadecimal. */
            root: string;
            /**
             * Format: int64
             * @description Number of leaves.
             */
            size: bigint;
            /**
             * Format: int64
             * @description Milliseconds since the Unix epoch.
             */
            timestamp_ms: bigint;
        };
        /** @description A payment to make. */
        WantedPayment: {
            /** @description How much: a decimal above zero, such as `10.50`. */
            amount: string;
            /** @description Currency code or ISIN. */
            asset: string;
            /** @description Hash of what the payment is for, kept elsewhere: 32 bytes in hexadecimal, which the payer signs too. */
            details?: string | null;
            /** @description The account that pays. */
            from: components["schemas"]["AccountName"];
            /** @description The account that is paid. */
            to: components["schemas"]["AccountName"];
            /** @description Its end-to-end reference, a UUID; without one it gets one. */
            uetr?: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
