//! The forks in order.

use std::fmt;

use revm::primitives::hardfork::SpecId;

macro_rules! forks {
    ($($fork:ident, $name:literal, $spec:ident, [$($key:literal),*], $doc:literal;)*) => {
        /// A fork of Ethereum; a later one includes all before it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fork { $(#[doc = $doc] $fork,)* }

        impl Fork {
            /// All of them in order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$fork),*];

            /// The name that genesis files and the `blobSchedule` have for it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$fork => $name,)* }
            }

            /// The rules of `revm` for it.
            pub fn spec(self) -> SpecId {
                match self { $(Self::$fork => SpecId::$spec,)* }
            }

            /// Under which keys a genesis file has its block or time.
            pub(super) fn keys(self) -> &'static [&'static str] {
                match self { $(Self::$fork => &[$($key),*],)* }
            }
        }
    };
}

forks! {
    Frontier, "Frontier", FRONTIER, [], "The first rules.";
    Homestead, "Homestead", HOMESTEAD, ["homesteadBlock"], "EIP-606";
    Dao, "DAO", HOMESTEAD, ["daoForkBlock"], "EIP-779: an irregular state change, no new rules.";
    Tangerine, "TangerineWhistle", TANGERINE, ["eip150Block"], "EIP-608";
    SpuriousDragon, "SpuriousDragon", SPURIOUS_DRAGON, ["eip158Block", "eip155Block"], "EIP-607";
    Byzantium, "Byzantium", BYZANTIUM, ["byzantiumBlock"], "EIP-609";
    Constantinople, "Constantinople", PETERSBURG, ["constantinopleBlock"], "EIP-1013, with EIP-1283.";
    Petersburg, "Petersburg", PETERSBURG, ["petersburgBlock", "constantinopleFixBlock"], "EIP-1716";
    Istanbul, "Istanbul", ISTANBUL, ["istanbulBlock"], "EIP-1679";
    MuirGlacier, "MuirGlacier", ISTANBUL, ["muirGlacierBlock"], "EIP-2384";
    Berlin, "Berlin", BERLIN, ["berlinBlock"], "EIP-2070";
    London, "London", LONDON, ["londonBlock"], "EIP-1559 and others.";
    ArrowGlacier, "ArrowGlacier", LONDON, ["arrowGlacierBlock"], "EIP-4345";
    GrayGlacier, "GrayGlacier", LONDON, ["grayGlacierBlock"], "EIP-5133";
    Paris, "Paris", MERGE, [], "EIP-3675: the end of work.";
    Shanghai, "Shanghai", SHANGHAI, ["shanghaiTime"], "EIP-4895 and others.";
    Cancun, "Cancun", CANCUN, ["cancunTime"], "EIP-7569";
    Prague, "Prague", PRAGUE, ["pragueTime"], "EIP-7600";
    Osaka, "Osaka", OSAKA, ["osakaTime"], "EIP-7607";
    Bpo1, "BPO1", OSAKA, ["bpo1Time"], "More blobs (EIP-7892).";
    Bpo2, "BPO2", OSAKA, ["bpo2Time"], "More blobs (EIP-7892).";
    Bpo3, "BPO3", OSAKA, ["bpo3Time"], "More blobs (EIP-7892).";
    Bpo4, "BPO4", OSAKA, ["bpo4Time"], "More blobs (EIP-7892).";
    Bpo5, "BPO5", OSAKA, ["bpo5Time"], "More blobs (EIP-7892).";
    Amsterdam, "Amsterdam", AMSTERDAM, ["amsterdamTime"], "As far as `revm` has it.";
}

impl Fork {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Whether it begins at a time rather than at a block number.
    pub fn by_time(self) -> bool {
        self > Self::Paris
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
