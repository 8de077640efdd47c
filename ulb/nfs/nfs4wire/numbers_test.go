package nfs4wire

import (
	"maps"
	"slices"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrtest"
)

// The enums have the same values and names as those of go-xdr, which follow RFC 7863.
func TestEnums(t *testing.T) {
	for name, difference := range map[string]string{
		"nfs_ftype4": xdrtest.SameNames(namesFType4, nfsv4.NfsFtype4_name),
		"nfsstat4": xdrtest.SameNames(without(namesNFSStat4, NFS4ErrNoXattr, NFS4ErrXattr2Big),
			nfsv4.Nfsstat4_name),
		"time_how4":         xdrtest.SameNames(namesTimeHow4, nfsv4.TimeHow4_name),
		"netloc_type4":      xdrtest.SameNames(namesNetlocType4, nfsv4.NetlocType4_name),
		"change_attr_type4": xdrtest.SameNames(namesChangeAttrType4, nfsv4.ChangeAttrType4_name),
		"data_content4":     xdrtest.SameNames(namesDataContent4, nfsv4.DataContent4_name),
		"stable_how4":       xdrtest.SameNames(namesStableHow4, nfsv4.StableHow4_name),
		"nfs_lock_type4":    xdrtest.SameNames(namesNFSLockType4, nfsv4.NfsLockType4_name),
		"nfs_opnum4": xdrtest.SameNames(without(namesOpNum, OpGetXattr, OpSetXattr, OpListXattrs, OpRemoveXattr),
			nfsv4.NfsOpnum4_name),
		"createmode4": xdrtest.SameNames(namesCreatemode4, nfsv4.Createmode4_name),
		"opentype4":   xdrtest.SameNames(namesOpentype4, nfsv4.Opentype4_name),
		"limit_by4":   xdrtest.SameNames(namesLimitBy4, nfsv4.LimitBy4_name),
		"open_delegation_type4": xdrtest.SameNames(
			without(namesOpenDelegationType4, OpenDelegateReadAttrsDeleg, OpenDelegateWriteAttrsDeleg),
			nfsv4.OpenDelegationType4_name),
		"open_claim_type4":         xdrtest.SameNames(namesOpenClaimType4, nfsv4.OpenClaimType4_name),
		"why_no_delegation4":       xdrtest.SameNames(namesWhyNoDelegation4, nfsv4.WhyNoDelegation4_name),
		"rpc_gss_svc_t":            xdrtest.SameNames(namesGSSService, nfsv4.RpcGssSvcT_name),
		"channel_dir_from_client4": xdrtest.SameNames(namesChannelDirFromClient4, nfsv4.ChannelDirFromClient4_name),
		"channel_dir_from_server4": xdrtest.SameNames(namesChannelDirFromServer4, nfsv4.ChannelDirFromServer4_name),
		"state_protect_how4":       xdrtest.SameNames(namesStateProtectHow4, nfsv4.StateProtectHow4_name),
		"secinfo_style4":           xdrtest.SameNames(namesSecinfoStyle4, nfsv4.SecinfoStyle4_name),
		"IO_ADVISE_type4":          xdrtest.SameNames(namesIOAdviseType4, nfsv4.IoAdviseType4_name),
		"nfs_cb_opnum4":            xdrtest.SameNames(namesCBOpNum, nfsv4.NfsCbOpnum4_name),
	} {
		if difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

// without returns names without those of values.
func without[N comparable](names map[N]string, values ...N) map[N]string {
	names = maps.Clone(names)
	maps.DeleteFunc(names, func(n N, _ string) bool { return slices.Contains(values, n) })
	return names
}

// The numbers that later RFCs have added to RFC 7863 are right (RFC 8275 §5, RFC 8276 §8.6, RFC
// 9754 §§2, 3.1 and 5.1).
func TestLaterNumbers(t *testing.T) {
	for name, c := range map[string][2]uint64{
		"mode_umask":           {Fattr4ModeUmask, 81},
		"xattr_support":        {Fattr4XattrSupport, 82},
		"offline":              {Fattr4Offline, 83},
		"time_deleg_access":    {Fattr4TimeDelegAccess, 84},
		"time_deleg_modify":    {Fattr4TimeDelegModify, 85},
		"open_arguments":       {Fattr4OpenArguments, 86},
		"GETXATTR":             {uint64(OpGetXattr), 72},
		"SETXATTR":             {uint64(OpSetXattr), 73},
		"LISTXATTRS":           {uint64(OpListXattrs), 74},
		"REMOVEXATTR":          {uint64(OpRemoveXattr), 75},
		"NOXATTR":              {uint64(NFS4ErrNoXattr), 10095},
		"XATTR2BIG":            {uint64(NFS4ErrXattr2Big), 10096},
		"XAREAD":               {Access4XattrRead, 0x40},
		"XAWRITE":              {Access4XattrWrite, 0x80},
		"XALIST":               {Access4XattrList, 0x100},
		"SETXATTR either":      {uint64(SetXattr4Either), 0},
		"SETXATTR create":      {uint64(SetXattr4Create), 1},
		"SETXATTR replace":     {uint64(SetXattr4Replace), 2},
		"READ_ATTRS_DELEG":     {uint64(OpenDelegateReadAttrsDeleg), 4},
		"WRITE_ATTRS_DELEG":    {uint64(OpenDelegateWriteAttrsDeleg), 5},
		"want timestamps":      {Open4ShareAccessWantDelegTimestamps, 0x100000},
		"want xor":             {Open4ShareAccessWantOpenXorDelegation, 0x200000},
		"no open stateid":      {Open4ResultNoOpenStateid, 0x10},
		"argument read":        {OpenArgsShareAccessRead, Open4ShareAccessRead},
		"argument write":       {OpenArgsShareAccessWrite, Open4ShareAccessWrite},
		"argument both":        {OpenArgsShareAccessBoth, Open4ShareAccessBoth},
		"argument deny none":   {OpenArgsShareDenyNone, Open4ShareDenyNone},
		"argument deny read":   {OpenArgsShareDenyRead, Open4ShareDenyRead},
		"argument deny write":  {OpenArgsShareDenyWrite, Open4ShareDenyWrite},
		"argument deny both":   {OpenArgsShareDenyBoth, Open4ShareDenyBoth},
		"argument any":         {OpenArgsShareAccessWantAnyDeleg << 8, Open4ShareAccessWantAnyDeleg},
		"argument none":        {OpenArgsShareAccessWantNoDeleg << 8, Open4ShareAccessWantNoDeleg},
		"argument cancel":      {OpenArgsShareAccessWantCancel << 8, Open4ShareAccessWantCancel},
		"argument timestamps":  {1 << OpenArgsShareAccessWantDelegTimestamps, Open4ShareAccessWantDelegTimestamps},
		"argument xor":         {1 << OpenArgsShareAccessWantOpenXorDelegation, Open4ShareAccessWantOpenXorDelegation},
		"argument signal":      {OpenArgsShareAccessWantSignalDelegWhenResrcAvail, 17},
		"argument uncontended": {OpenArgsShareAccessWantPushDelegWhenUncontended, 18},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %#x, not %#x", name, c[0], c[1])
		}
	}
}

// A value without a name is accepted if a special status answers it, or if it occurs only in
// results. Otherwise it is an error (RFC 8881 §15.1.1.1).
func TestUnknownValues(t *testing.T) {
	for name, c := range map[string]struct {
		v    xdrtest.Value
		open bool
	}{
		"nfs_ftype4: BADTYPE":             {new(FType4), true},
		"nfsstat4: a failure":             {new(NFSStat4), true},
		"nfs_opnum4: OP_ILLEGAL":          {new(OpNum), true},
		"nfs_cb_opnum4: OP_ILLEGAL":       {new(CBOpNum), true},
		"data_content4: UNION_NOTSUPP":    {new(DataContent4), true},
		"why_no_delegation4: none at all": {new(WhyNoDelegation4), true},
		"change_attr_type4: undefined":    {new(ChangeAttrType4), true},
		"time_how4":                       {new(TimeHow4), false},
		"stable_how4":                     {new(StableHow4), false},
		"nfs_lock_type4":                  {new(NFSLockType4), false},
		"createmode4":                     {new(Createmode4), false},
		"opentype4":                       {new(Opentype4), false},
		"open_claim_type4":                {new(OpenClaimType4), false},
		"state_protect_how4":              {new(StateProtectHow4), false},
		"secinfo_style4":                  {new(SecinfoStyle4), false},
		"setxattr_option4":                {new(SetXattrOption4), false},
		"channel_dir_from_client4":        {new(ChannelDirFromClient4), false},
	} {
		if ok := decodes(c.v, []byte{0, 0, 0, 99}); ok != c.open {
			t.Errorf("%s: 99 decodes: %v", name, ok)
		}
	}
}

func decodes(v xdrtest.Value, stream []byte) bool {
	d := xdr.NewDecoder(stream)
	v.Decode(d)
	return d.Finish() == nil
}
