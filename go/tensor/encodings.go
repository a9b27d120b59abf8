// Code generated from csrc/encodings.def by go generate ./go/tensor. DO NOT EDIT.

package tensor

// The encodings. Dense ones carry the prefix Enc, since the bare name is their DType.
const (
	EncF32     Encoding = 0
	EncF16     Encoding = 1
	Q4_0       Encoding = 2
	Q4_1       Encoding = 3
	Q4_2       Encoding = 4 // retired
	Q4_3       Encoding = 5 // retired
	Q5_0       Encoding = 6
	Q5_1       Encoding = 7
	Q8_0       Encoding = 8
	Q8_1       Encoding = 9
	Q2_K       Encoding = 10
	Q3_K       Encoding = 11
	Q4_K       Encoding = 12
	Q5_K       Encoding = 13
	Q6_K       Encoding = 14
	Q8_K       Encoding = 15
	IQ2_XXS    Encoding = 16
	IQ2_XS     Encoding = 17
	IQ3_XXS    Encoding = 18
	IQ1_S      Encoding = 19
	IQ4_NL     Encoding = 20
	IQ3_S      Encoding = 21
	IQ2_S      Encoding = 22
	IQ4_XS     Encoding = 23
	EncI8      Encoding = 24
	EncI16     Encoding = 25
	EncI32     Encoding = 26
	EncI64     Encoding = 27
	EncF64     Encoding = 28
	IQ1_M      Encoding = 29
	EncBF16    Encoding = 30
	Q4_0_4_4   Encoding = 31 // retired
	Q4_0_4_8   Encoding = 32 // retired
	Q4_0_8_8   Encoding = 33 // retired
	TQ1_0      Encoding = 34
	TQ2_0      Encoding = 35
	IQ4_NL_4_4 Encoding = 36 // retired
	IQ4_NL_4_8 Encoding = 37 // retired
	IQ4_NL_8_8 Encoding = 38 // retired
	MXFP4      Encoding = 39
	NVFP4      Encoding = 40
	Q1_0       Encoding = 41
	Q2_0       Encoding = 42
	A8         Encoding = 256
)

var encodings = [...]EncodingInfo{
	{ID: EncF32, Name: "F32", DType: F32, BlockElements: 1, BlockBytes: 4},
	{ID: EncF16, Name: "F16", DType: F16, BlockElements: 1, BlockBytes: 2},
	{ID: Q4_0, Name: "Q4_0", DType: F32, BlockElements: 32, BlockBytes: 18},
	{ID: Q4_1, Name: "Q4_1", DType: F32, BlockElements: 32, BlockBytes: 20},
	{ID: Q4_2, Name: "Q4_2", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: Q4_3, Name: "Q4_3", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: Q5_0, Name: "Q5_0", DType: F32, BlockElements: 32, BlockBytes: 22},
	{ID: Q5_1, Name: "Q5_1", DType: F32, BlockElements: 32, BlockBytes: 24},
	{ID: Q8_0, Name: "Q8_0", DType: F32, BlockElements: 32, BlockBytes: 34},
	{ID: Q8_1, Name: "Q8_1", DType: F32, BlockElements: 32, BlockBytes: 36, Activation: true},
	{ID: Q2_K, Name: "Q2_K", DType: F32, BlockElements: 256, BlockBytes: 84},
	{ID: Q3_K, Name: "Q3_K", DType: F32, BlockElements: 256, BlockBytes: 110},
	{ID: Q4_K, Name: "Q4_K", DType: F32, BlockElements: 256, BlockBytes: 144},
	{ID: Q5_K, Name: "Q5_K", DType: F32, BlockElements: 256, BlockBytes: 176},
	{ID: Q6_K, Name: "Q6_K", DType: F32, BlockElements: 256, BlockBytes: 210},
	{ID: Q8_K, Name: "Q8_K", DType: F32, BlockElements: 256, BlockBytes: 292, Activation: true},
	{ID: IQ2_XXS, Name: "IQ2_XXS", DType: F32, BlockElements: 256, BlockBytes: 66},
	{ID: IQ2_XS, Name: "IQ2_XS", DType: F32, BlockElements: 256, BlockBytes: 74},
	{ID: IQ3_XXS, Name: "IQ3_XXS", DType: F32, BlockElements: 256, BlockBytes: 98},
	{ID: IQ1_S, Name: "IQ1_S", DType: F32, BlockElements: 256, BlockBytes: 50},
	{ID: IQ4_NL, Name: "IQ4_NL", DType: F32, BlockElements: 32, BlockBytes: 18},
	{ID: IQ3_S, Name: "IQ3_S", DType: F32, BlockElements: 256, BlockBytes: 110},
	{ID: IQ2_S, Name: "IQ2_S", DType: F32, BlockElements: 256, BlockBytes: 82},
	{ID: IQ4_XS, Name: "IQ4_XS", DType: F32, BlockElements: 256, BlockBytes: 136},
	{ID: EncI8, Name: "I8", DType: I8, BlockElements: 1, BlockBytes: 1, Integer: true},
	{ID: EncI16, Name: "I16", DType: I16, BlockElements: 1, BlockBytes: 2, Integer: true},
	{ID: EncI32, Name: "I32", DType: I32, BlockElements: 1, BlockBytes: 4, Integer: true},
	{ID: EncI64, Name: "I64", DType: I64, BlockElements: 1, BlockBytes: 8, Integer: true},
	{ID: EncF64, Name: "F64", DType: F64, BlockElements: 1, BlockBytes: 8},
	{ID: IQ1_M, Name: "IQ1_M", DType: F32, BlockElements: 256, BlockBytes: 56},
	{ID: EncBF16, Name: "BF16", DType: BF16, BlockElements: 1, BlockBytes: 2},
	{ID: Q4_0_4_4, Name: "Q4_0_4_4", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: Q4_0_4_8, Name: "Q4_0_4_8", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: Q4_0_8_8, Name: "Q4_0_8_8", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: TQ1_0, Name: "TQ1_0", DType: F32, BlockElements: 256, BlockBytes: 54},
	{ID: TQ2_0, Name: "TQ2_0", DType: F32, BlockElements: 256, BlockBytes: 66},
	{ID: IQ4_NL_4_4, Name: "IQ4_NL_4_4", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: IQ4_NL_4_8, Name: "IQ4_NL_4_8", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: IQ4_NL_8_8, Name: "IQ4_NL_8_8", DType: F32, BlockElements: 0, BlockBytes: 0, Retired: true},
	{ID: MXFP4, Name: "MXFP4", DType: F32, BlockElements: 32, BlockBytes: 17},
	{ID: NVFP4, Name: "NVFP4", DType: F32, BlockElements: 64, BlockBytes: 36},
	{ID: Q1_0, Name: "Q1_0", DType: F32, BlockElements: 128, BlockBytes: 18},
	{ID: Q2_0, Name: "Q2_0", DType: F32, BlockElements: 64, BlockBytes: 18},
	{ID: A8, Name: "A8", DType: F32, BlockElements: 128, BlockBytes: 160, Activation: true},
}

var fields = [len(encodings)][]Field{
	{ // F32
		{Name: "value", Type: FieldF32, Offset: 0, Count: 1, Groups: 1, Scale: true},
	},
	{ // F16
		{Name: "value", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
	},
	{ // Q4_0
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU8, Offset: 2, Count: 16, Groups: 1},
	},
	{ // Q4_1
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "m", Type: FieldF16, Offset: 2, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU8, Offset: 4, Count: 16, Groups: 1},
	},
	nil, // Q4_2
	nil, // Q4_3
	{ // Q5_0
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qh", Type: FieldU32, Offset: 2, Count: 1, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 6, Count: 16, Groups: 1},
	},
	{ // Q5_1
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "m", Type: FieldF16, Offset: 2, Count: 1, Groups: 1, Scale: true},
		{Name: "qh", Type: FieldU32, Offset: 4, Count: 1, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 8, Count: 16, Groups: 1},
	},
	{ // Q8_0
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldI8, Offset: 2, Count: 32, Groups: 1},
	},
	{ // Q8_1
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "s", Type: FieldF16, Offset: 2, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldI8, Offset: 4, Count: 32, Groups: 1},
	},
	{ // Q2_K
		{Name: "scales", Type: FieldU8, Offset: 0, Count: 16, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 16, Count: 64, Groups: 1},
		{Name: "d", Type: FieldF16, Offset: 80, Count: 1, Groups: 1, Scale: true},
		{Name: "dmin", Type: FieldF16, Offset: 82, Count: 1, Groups: 1, Scale: true},
	},
	{ // Q3_K
		{Name: "hmask", Type: FieldU8, Offset: 0, Count: 32, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 32, Count: 64, Groups: 1},
		{Name: "scales", Type: FieldU8, Offset: 96, Count: 12, Groups: 1},
		{Name: "d", Type: FieldF16, Offset: 108, Count: 1, Groups: 1, Scale: true},
	},
	{ // Q4_K
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "dmin", Type: FieldF16, Offset: 2, Count: 1, Groups: 1, Scale: true},
		{Name: "scales", Type: FieldU8, Offset: 4, Count: 12, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 16, Count: 128, Groups: 1},
	},
	{ // Q5_K
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "dmin", Type: FieldF16, Offset: 2, Count: 1, Groups: 1, Scale: true},
		{Name: "scales", Type: FieldU8, Offset: 4, Count: 12, Groups: 1},
		{Name: "qh", Type: FieldU8, Offset: 16, Count: 32, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 48, Count: 128, Groups: 1},
	},
	{ // Q6_K
		{Name: "ql", Type: FieldU8, Offset: 0, Count: 128, Groups: 1},
		{Name: "qh", Type: FieldU8, Offset: 128, Count: 64, Groups: 1},
		{Name: "scales", Type: FieldI8, Offset: 192, Count: 16, Groups: 1},
		{Name: "d", Type: FieldF16, Offset: 208, Count: 1, Groups: 1, Scale: true},
	},
	{ // Q8_K
		{Name: "d", Type: FieldF32, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldI8, Offset: 4, Count: 256, Groups: 1},
		{Name: "sums", Type: FieldI16, Offset: 260, Count: 16, Groups: 1},
	},
	{ // IQ2_XXS
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "index", Type: FieldU8, Offset: 2, Count: 4, Groups: 8, GroupBytes: 8},
		{Name: "signs", Type: FieldLE32, Offset: 6, Count: 1, Groups: 8, GroupBytes: 8},
	},
	{ // IQ2_XS
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU16, Offset: 2, Count: 32, Groups: 1},
		{Name: "scales", Type: FieldU8, Offset: 66, Count: 8, Groups: 1},
	},
	{ // IQ3_XXS
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "index", Type: FieldU8, Offset: 2, Count: 64, Groups: 1},
		{Name: "signs", Type: FieldU32, Offset: 66, Count: 8, Groups: 1},
	},
	{ // IQ1_S
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "index", Type: FieldU8, Offset: 2, Count: 32, Groups: 1},
		{Name: "qh", Type: FieldU16, Offset: 34, Count: 8, Groups: 1},
	},
	{ // IQ4_NL
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU8, Offset: 2, Count: 16, Groups: 1},
	},
	{ // IQ3_S
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "index", Type: FieldU8, Offset: 2, Count: 64, Groups: 1},
		{Name: "qh", Type: FieldU8, Offset: 66, Count: 8, Groups: 1},
		{Name: "signs", Type: FieldU8, Offset: 74, Count: 32, Groups: 1},
		{Name: "scales", Type: FieldU8, Offset: 106, Count: 4, Groups: 1},
	},
	{ // IQ2_S
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "index", Type: FieldU8, Offset: 2, Count: 32, Groups: 1},
		{Name: "signs", Type: FieldU8, Offset: 34, Count: 32, Groups: 1},
		{Name: "qh", Type: FieldU8, Offset: 66, Count: 8, Groups: 1},
		{Name: "scales", Type: FieldU8, Offset: 74, Count: 8, Groups: 1},
	},
	{ // IQ4_XS
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "scales_h", Type: FieldU16, Offset: 2, Count: 1, Groups: 1},
		{Name: "scales_l", Type: FieldU8, Offset: 4, Count: 4, Groups: 1},
		{Name: "qs", Type: FieldU8, Offset: 8, Count: 128, Groups: 1},
	},
	{ // I8
		{Name: "value", Type: FieldI8, Offset: 0, Count: 1, Groups: 1},
	},
	{ // I16
		{Name: "value", Type: FieldI16, Offset: 0, Count: 1, Groups: 1},
	},
	{ // I32
		{Name: "value", Type: FieldI32, Offset: 0, Count: 1, Groups: 1},
	},
	{ // I64
		{Name: "value", Type: FieldI64, Offset: 0, Count: 1, Groups: 1},
	},
	{ // F64
		{Name: "value", Type: FieldF64, Offset: 0, Count: 1, Groups: 1, Scale: true},
	},
	{ // IQ1_M
		{Name: "index", Type: FieldU8, Offset: 0, Count: 32, Groups: 1},
		{Name: "qh", Type: FieldU8, Offset: 32, Count: 16, Groups: 1},
		{Name: "scales", Type: FieldU16, Offset: 48, Count: 4, Groups: 1},
		{Name: "d", Type: FieldF16, Offset: 0, Count: 0, Groups: 1, Scale: true, Parts: []BitRange{{396, 4}, {412, 4}, {428, 4}, {444, 4}}},
	},
	{ // BF16
		{Name: "value", Type: FieldBF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
	},
	nil, // Q4_0_4_4
	nil, // Q4_0_4_8
	nil, // Q4_0_8_8
	{ // TQ1_0
		{Name: "qs", Type: FieldU8, Offset: 0, Count: 48, Groups: 1},
		{Name: "qh", Type: FieldU8, Offset: 48, Count: 4, Groups: 1},
		{Name: "d", Type: FieldF16, Offset: 52, Count: 1, Groups: 1, Scale: true},
	},
	{ // TQ2_0
		{Name: "qs", Type: FieldU8, Offset: 0, Count: 64, Groups: 1},
		{Name: "d", Type: FieldF16, Offset: 64, Count: 1, Groups: 1, Scale: true},
	},
	nil, // IQ4_NL_4_4
	nil, // IQ4_NL_4_8
	nil, // IQ4_NL_8_8
	{ // MXFP4
		{Name: "e", Type: FieldE8M0, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU8, Offset: 1, Count: 16, Groups: 1},
	},
	{ // NVFP4
		{Name: "d", Type: FieldUE4M3, Offset: 0, Count: 4, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU8, Offset: 4, Count: 32, Groups: 1},
	},
	{ // Q1_0
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "bits", Type: FieldU8, Offset: 2, Count: 16, Groups: 1},
	},
	{ // Q2_0
		{Name: "d", Type: FieldF16, Offset: 0, Count: 1, Groups: 1, Scale: true},
		{Name: "qs", Type: FieldU8, Offset: 2, Count: 16, Groups: 1},
	},
	{ // A8
		{Name: "d", Type: FieldF32, Offset: 0, Count: 4, Groups: 1, Scale: true},
		{Name: "sums", Type: FieldI16, Offset: 16, Count: 8, Groups: 1},
		{Name: "qs", Type: FieldI8, Offset: 32, Count: 128, Groups: 1},
	},
}
