package rdmacm

// A Shortcoming names a rule of this package that a device cannot keep, in words for administrators.
type Shortcoming string

// Shortcomings that devices are known to have.
const (
	// AbortLooksOrderly: Closed gets nil although the peer aborted.
	AbortLooksOrderly Shortcoming = "a peer's abort looks like its leaving"
	// FaultLooksOrderly: the peer broke a rule, this side's device ended the connection because
	// of that, and Closed gets nil.
	FaultLooksOrderly Shortcoming = "a fault of the peer that the device answers looks like its leaving"
	// FaultIsNotNamed: the peer refused work that this side posted, and Closed gets nil, or an
	// error that wraps no RefusedError.
	FaultIsNotNamed Shortcoming = "a peer that refuses work does not say which, and seems to leave"
	// GuessableSTags: peers may guess an STag from earlier ones.
	GuessableSTags Shortcoming = "STags can be guessed from those before"
	// RefusalLosesItsData: if the peer refuses the connection, Dial may return an error that is
	// no RejectedError.
	RefusalLosesItsData Shortcoming = "the private data of a refusal may be lost"
	// ReadsNeedNoRight: a peer may read memory that RemoteRead was not granted for.
	ReadsNeedNoRight Shortcoming = "a peer may read memory that is registered for writes alone, or for local use"
	// ReadsSeeLaterBytes: a peer's Read may bring bytes that were written after the exposure ended,
	// because the device sends the memory itself, without a copy.
	ReadsSeeLaterBytes Shortcoming = "a peer's read may bring bytes that were written after its access ended"
	// NoEmptyRegion: Register fails for memory of 0 bytes.
	NoEmptyRegion Shortcoming = "no region of 0 bytes can be registered"
)
