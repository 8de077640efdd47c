package config

// Auto is the value of RNIC.Provider for the software RNIC, together with RDMA devices if the
// machine has some.
const Auto = "auto"

// softwareSettings has the keys that only the software RNIC uses.
var softwareSettings = []setting{
	choice("rnic.crc", func(c *Config) *Choice { return &c.RNIC.CRC }, []string{"peer", "on", "off"}, "",
		"whether the software RNIC asks for a CRC32C on each frame (RFC 5044 §4.4): `on`, `off`, or `peer` for leaving it to the peer. When either side asks, both do it. Linux's siw does not ask"),
	{key: "rnic.fpdu", usual: quoted("auto"), check: checkFPDU,
		meaning: "frames sent: `auto` makes them as large as the standard allows, the cheapest for peers in software, or, with CRCs, as fits a TCP segment; `mss` fits each into a TCP segment, as adapters in hardware may insist; or a number of bytes from 128 to 64768"},
}
