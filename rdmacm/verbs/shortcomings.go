package verbs

import "github.com/nfsrdmad/nfsrdmad/rdmacm"

// shortcomings returns the shortcomings of siw if the device is siw, and otherwise those that
// any other device may have.
func (d *rnic) shortcomings() []rdmacm.Shortcoming {
	if d.SIW {
		return []rdmacm.Shortcoming{
			rdmacm.AbortLooksOrderly, rdmacm.FaultLooksOrderly, rdmacm.FaultIsNotNamed,
			rdmacm.RefusalLosesItsData, rdmacm.ReadsNeedNoRight, rdmacm.ReadsSeeLaterBytes, rdmacm.NoEmptyRegion,
		}
	}
	return []rdmacm.Shortcoming{rdmacm.AbortLooksOrderly, rdmacm.FaultLooksOrderly, rdmacm.GuessableSTags}
}
