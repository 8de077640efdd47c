package mem

// A holding counts the pages of a share or a client: in all, and of each Group.
type holding struct {
	pages int32
	in    []heldIn // an entry with 0 pages is free for another Group
}

type heldIn struct {
	group *Group
	pages int32
}

func (h *holding) add(g *Group, n int32) {
	h.pages += n
	free := len(h.in)
	for i := range h.in {
		in := &h.in[i]
		if in.group == g {
			in.pages += n
			return
		}
		if in.pages == 0 {
			free = i
		}
	}
	if free == len(h.in) {
		h.in = append(h.in, heldIn{})
	}
	h.in[free] = heldIn{g, n}
}

// of returns the number of pages of h that belong to g.
func (h *holding) of(g *Group) int32 {
	for _, in := range h.in {
		if in.group == g {
			return in.pages
		}
	}
	return 0
}
