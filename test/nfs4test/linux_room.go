package nfs4test

import (
	"math"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Linux client keeps room for the largest reply that it expects to a compound: the sum of a fixed number of
// words for each operation, and the bytes that the request asks for. Over TCP it cuts a longer reply
// (and over RDMA it offers no more room), and the program that waits for the reply gets EIO. Neither the
// RFCs nor the request tell the server these numbers. They are in the client's sources (Linux 4.x, 6.12 and
// 7.2: the macros *_maxsz in fs/nfs/nfs4xdr.c and nfs42xdr.c). If the versions differ, the
// table has the lowest number, with the smallest configuration: without security labels.

// A linuxRow is the room for the result of one operation.
type linuxRow struct {
	// words is the number of 32-bit words, including the operation's number and status.
	words int
	// asked returns the bytes that the arguments ask for in addition. It may be nil.
	asked func(args *xdr.Decoder) int
	// unused is true if a Linux client never sends the operation. Then it has no room for it either.
	unused bool
}

const (
	header     = 2 // an operation's number and its status
	stateID    = 4
	changeInfo = 5
	bitmap     = 4
	session    = 4 // a session ID
	verifier   = 2
	// linuxName is the longest name of an owner or group that a Linux client has room for (IDMAP_NAMESZ), in
	// words: a length and 128 bytes.
	linuxName = 1 + 32
	// linuxLockOwner is the longest lock-owner that a Linux client has room for in the words of a denied
	// lock: a length and 20 bytes, as long as its own ones.
	linuxLockOwner = 1 + 5
	linuxDenied    = 2 + 2 + 1 + 2 + linuxLockOwner
	linuxSecurity  = 1 + 12*(16+32)/4 // 12 flavors
	linuxChannel   = 8
	linuxLimit     = 1 + 256 // an opaque of at most 1,024 bytes
	linuxExchange  = 2 + 1 + 1 + 1 + 2*(1+3) + 2 + 2*linuxLimit + 1 + 2*linuxLimit + 3
	linuxDelegated = 1 + stateID + 1 + 3 + 3 + linuxName
)

// linuxRows has a row for each operation that the server implements, by operation number.
var linuxRows = map[wire.OpNum]linuxRow{
	wire.OpAccess:             {words: header + 2},
	wire.OpClose:              {words: header + stateID},
	wire.OpCommit:             {words: header + verifier},
	wire.OpCreate:             {words: header + changeInfo + bitmap},
	wire.OpDelegpurge:         {unused: true},
	wire.OpDelegreturn:        {words: header},
	wire.OpGetattr:            {words: header, asked: askedAttributes},
	wire.OpGetFH:              {words: header + 1 + 32},
	wire.OpLink:               {words: header + changeInfo},
	wire.OpLock:               {words: header + linuxDenied},
	wire.OpLockt:              {words: header + linuxDenied},
	wire.OpLocku:              {words: header + stateID},
	wire.OpLookup:             {words: header},
	wire.OpLookupp:            {words: header},
	wire.OpNverify:            {unused: true},
	wire.OpOpen:               {words: header + stateID + changeInfo + 1 + bitmap + linuxDelegated},
	wire.OpOpenConfirm:        {words: header + stateID},
	wire.OpOpenDowngrade:      {words: header + stateID},
	wire.OpPutFH:              {words: header},
	wire.OpPutPubFH:           {unused: true},
	wire.OpPutRootFH:          {words: header},
	wire.OpRead:               {words: header + 2, asked: askedData},
	wire.OpReaddir:            {words: header + verifier, asked: askedEntries},
	wire.OpReadlink:           {words: header + 1, asked: func(*xdr.Decoder) int { return 4096 }}, // a page
	wire.OpRemove:             {words: header + changeInfo},
	wire.OpRename:             {words: header + 2*changeInfo},
	wire.OpRenew:              {words: header},
	wire.OpRestoreFH:          {words: header},
	wire.OpSaveFH:             {words: header},
	wire.OpSecInfo:            {words: header + linuxSecurity},
	wire.OpSetattr:            {words: header + bitmap},
	wire.OpSetClientID:        {words: header + 2 + verifier + 1 + 2 + 1 + 14}, // 18: the netid and the address of a client in use
	wire.OpSetClientIDConfirm: {words: header},
	wire.OpVerify:             {unused: true},
	wire.OpWrite:              {words: header + 2 + verifier},
	wire.OpReleaseLockOwner:   {words: header},

	wire.OpBackchannelCtl:    {unused: true},
	wire.OpBindConnToSession: {words: header + session + 2},
	wire.OpExchangeID:        {words: header + linuxExchange},
	wire.OpCreateSession:     {words: header + session + 2 + 2*linuxChannel},
	wire.OpDestroySession:    {words: header},
	wire.OpFreeStateID:       {words: header},
	wire.OpSecInfoNoName:     {words: header + linuxSecurity},
	wire.OpSequence:          {words: header + session + 5},
	wire.OpSetSSV:            {unused: true},
	wire.OpTestStateID:       {words: header + 1, asked: askedStates},
	wire.OpDestroyClientID:   {words: header},
	wire.OpReclaimComplete:   {words: header},

	wire.OpAllocate:   {words: header},
	wire.OpCopy:       {words: header + 1 + stateID + 2 + 1 + verifier + 2},
	wire.OpDeallocate: {words: header},
	wire.OpIOAdvise:   {unused: true},
	wire.OpReadPlus:   {words: header + 2 + 5, asked: askedSegments}, // 5: one hole
	wire.OpSeek:       {words: header + 1 + 1 + 2 + 2},
	wire.OpClone:      {words: header},

	// A GETXATTR does not say how long a value the client takes: 64 KiB if it only asks for the length, else the
	// program's buffer in whole pages. Over TCP a longer value gets ERANGE, as the program expects.
	wire.OpGetXattr:    {words: header + 1, asked: func(*xdr.Decoder) int { return 64 << 10 }},
	wire.OpSetXattr:    {words: header + changeInfo},
	wire.OpListXattrs:  {words: header, asked: askedNames},
	wire.OpRemoveXattr: {words: header + changeInfo},
}

// askedNames is the maxcount of a LISTXATTRS, which includes the cookie and the number of names.
func askedNames(d *xdr.Decoder) int {
	d.Skip(8)
	return int(d.Uint32())
}

// askedSegments is the count of a READ_PLUS.
func askedSegments(d *xdr.Decoder) int {
	d.Skip(wire.StateID4MaxSize + 8)
	return int(d.Uint32())
}

// askedData is the count of a READ, with its padding.
func askedData(d *xdr.Decoder) int {
	n := askedSegments(d)
	return n + xdr.Pad(n)
}

// askedEntries is the maxcount of a READDIR. It includes the verifier, for which the client has room besides.
func askedEntries(d *xdr.Decoder) int {
	d.Skip(8 + wire.NFS4VerifierSize + 4)
	return int(d.Uint32())
}

// askedStates is a word for each stateid of a TEST_STATEID.
func askedStates(d *xdr.Decoder) int { return 4 * int(d.Uint32()) }

// linuxAttributes lists the sets of attributes that a Linux client asks for with GETATTR, and the words that it
// keeps for each: those of a file system, of any object, and of the locations, which have a page.
var linuxAttributes = []struct {
	asked wire.Bitmap4
	words int
}{
	{wire.Bits(wire.Fattr4LeaseTime, wire.Fattr4Maxfilesize, wire.Fattr4Maxread, wire.Fattr4Maxwrite, wire.Fattr4TimeDelta,
		wire.Fattr4FsLayoutTypes, wire.Fattr4LayoutBlksize, wire.Fattr4CloneBlksize, wire.Fattr4ChangeAttrType, wire.Fattr4XattrSupport), bitmap + 4 + 8 + 5},
	{wire.Bits(wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4Mode, wire.Fattr4Numlinks,
		wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4Rawdev, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess, wire.Fattr4TimeCreate,
		wire.Fattr4TimeMetadata, wire.Fattr4TimeModify, wire.Fattr4MountedOnFileID), linuxObject},
	{wire.Bits(wire.Fattr4FilesAvail, wire.Fattr4FilesFree, wire.Fattr4FilesTotal, wire.Fattr4SpaceAvail, wire.Fattr4SpaceFree, wire.Fattr4SpaceTotal), linuxObject},
	{wire.Bits(wire.Fattr4Maxlink, wire.Fattr4Maxname), linuxObject},
	{wire.Bits(wire.Fattr4SupportedAttrs, wire.Fattr4FHExpireType, wire.Fattr4LinkSupport, wire.Fattr4SymlinkSupport, wire.Fattr4Aclsupport,
		wire.Fattr4CaseInsensitive, wire.Fattr4CasePreserving, wire.Fattr4SuppattrExclcreat, wire.Fattr4OpenArguments), linuxObject},
	{wire.Bits(wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4FsLocations, wire.Fattr4Owner, wire.Fattr4OwnerGroup,
		wire.Fattr4Rawdev, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess, wire.Fattr4TimeMetadata, wire.Fattr4TimeModify, wire.Fattr4MountedOnFileID), 4096/4 - header},
}

// linuxObject is the room for the attributes of an object, in words. The last summand is that of a pNFS attribute.
const linuxObject = bitmap + 1 + (1 + 2 + 2 + 4 + 2 + 1 + 1 + 2 + 2 + 3*3) + 2*linuxName + (1 + 1 + bitmap + 1 + 8)

// askedAttributes is the room for the attributes of a GETATTR. It is unlimited if no Linux client asks for them.
func askedAttributes(d *xdr.Decoder) int {
	var set wire.Bitmap4
	set.Decode(d)
	for _, a := range linuxAttributes {
		if more := set.Without(&a.asked); more.IsEmpty() {
			return 4 * a.words
		}
	}
	return math.MaxInt32
}

// LinuxAttributes returns the sets of attributes that a Linux client asks for with GETATTR.
func LinuxAttributes() (all []wire.Bitmap4) {
	for _, a := range linuxAttributes {
		all = append(all, a.asked)
	}
	return all
}

// LinuxRoom returns how many bytes a Linux client keeps for the result of an operation, from its number on. It
// returns the largest int if no Linux client sends such an operation. ok is false if the table has no row for
// it.
func LinuxRoom(o Op) (room int, ok bool) {
	row, ok := linuxRows[o.Number]
	switch {
	case !ok || row.unused:
		return math.MaxInt, ok
	case row.asked == nil:
		return 4 * row.words, true
	}
	w := xdr.NewWriter(make([]byte, 0, 4096))
	if o.Args != nil {
		o.Args.Encode(w)
	}
	d := xdr.NewDecoder(w.Bytes())
	room = row.asked(d)
	if d.Err() != nil || w.Overflow() {
		return math.MaxInt, true
	}
	return 4*row.words + room, true
}

// fits fails the test if a result is longer than a Linux client has room for.
func (p *Peer) fits(ops []Op, results []OpResult) {
	p.T.Helper()
	for i, r := range results {
		if r.Number != ops[i].Number {
			continue // OP_ILLEGAL
		}
		if room, _ := LinuxRoom(ops[i]); r.Size > room {
			p.T.Errorf("the result of %v, %v, takes %d bytes; a Linux client has room for %d", r.Number, r.Status, r.Size, room)
		}
	}
}
