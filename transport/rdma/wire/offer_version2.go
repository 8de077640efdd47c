package wire

// Version2 returns an offer that Offer2.Common has converted.
func (o Offer) Version2() Offer2 {
	return Offer2{o.Writes, o.Reply, o.encoded, len(o.Writes.chunks) + 4}
}

// Common returns the offer in the form that all versions have in common.
func (o Offer2) Common() Offer { return Offer{o.Writes, o.Reply, o.encoded} }
