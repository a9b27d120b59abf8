package resolver

import "github.com/skeep-project/skeep/go/tensor"

// gains says how many times as fast one token is multiplied in feed order as it is as stored: one row for each encoding
// that has kernels for both, one column for each family of processors. The first column serves processors of other
// families and stands in where 0 says that nothing was measured; its values are low on purpose.
//
// How a value is measured: decode of a whole model that is mostly of this encoding, with as many threads as cores, in turns
//
//	skeep run MODEL --form '*=stored' -n 48 -o json
//	skeep run MODEL --form '*=feed' -n 48 -o json
//
// and the median of the ratios. As stored, weights are a file's pages of 4 KiB. In the huge pages that bench_matmul uses the
// gain is smaller. Products on F32 activations and portable kernels have no gain.
var gains = map[tensor.Encoding][len(families)]float64{
	//               unknown zen3 sapphire-rapids zen4
	tensor.Q4_0:   {1.1, 0, 1.38, 0},
	tensor.Q4_1:   {1.1, 0, 0, 0},
	tensor.Q5_0:   {1.1, 0, 0, 0},
	tensor.Q5_1:   {1.1, 0, 0, 0},
	tensor.Q8_0:   {1.1, 0, 1.23, 0},
	tensor.Q2_K:   {1.1, 0, 0, 0},
	tensor.Q3_K:   {1.1, 0, 0, 0},
	tensor.Q4_K:   {1.1, 0, 1.28, 0},
	tensor.Q5_K:   {1.1, 0, 1.23, 0},
	tensor.Q6_K:   {1.1, 0, 1.13, 0},
	tensor.IQ4_NL: {1.1, 0, 0, 0},
	tensor.IQ4_XS: {1.1, 0, 0, 0},
	tensor.MXFP4:  {1.1, 0, 0, 0},
	tensor.TQ2_0:  {1.1, 0, 0, 0},
}

// families names the columns of gains, as the C core (csrc/kernel_machine.c) names families of processors.
var families = [...]string{"unknown", "zen3", "sapphire-rapids", "zen4"}

// worthwhile is the least gain for which a private copy of a weight is made.
const worthwhile = 1.03

// Gain says how many times as fast a product with a weight in feed order is for one token as with the weight as stored,
// and on which family of processors that was measured: "unknown" if not on this one. ratio is 0 for an encoding of which
// nothing is known.
func Gain(processor string, e tensor.Encoding) (ratio float64, family string) {
	row := gains[e]
	for i, name := range families {
		if name == processor && row[i] != 0 {
			return row[i], name
		}
	}
	return row[0], families[0]
}
