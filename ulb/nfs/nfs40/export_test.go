package nfs40

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"

// ChannelOf returns the Channel for callbacks to c, or nil if c is no client of minor version 0.
func ChannelOf(c *state.Client) *Channel {
	if x, ok := c.Companion().(*client); ok {
		return x.channel
	}
	return nil
}
