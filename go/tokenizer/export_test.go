package tokenizer

import "slices"

// Split splits text by the named pre-tokenizer.
func Split(name, text string) []string {
	i := slices.IndexFunc(preTokenizers, func(p preTokenizer) bool { return slices.Contains(p.names, name) })
	pieces := []string{text}
	for _, stage := range preTokenizers[i].stages() {
		var next []string
		for _, piece := range pieces {
			for piece != "" {
				n := stage(piece)
				next = append(next, piece[:n])
				piece = piece[n:]
			}
		}
		pieces = next
	}
	return pieces
}
