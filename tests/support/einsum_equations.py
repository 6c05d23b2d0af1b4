"""Equations that others test their einsum with, as data."""

OPT_EINSUM = (
    # The equations of opt_einsum 3.4.0's tests/test_contract.py (MIT licence, (c) 2014 Daniel G. A. Smith).
    "a,->a", "ab,->ab", ",ab,->ab", ",,->", "a,ab,abc->abc", "a,b,ab->ab", "ea,fb,gc,hd,abcd->efgh",
    "ea,fb,abcd,gc,hd->efgh", "abcd,ea,fb,gc,hd->efgh", "acdf,jbje,gihb,hfac,gfac,gifabc,hfac",
    "cd,bdhe,aidb,hgca,gc,hgibcd,hgac", "abhe,hidj,jgba,hiab,gab", "bde,cdh,agdb,hica,ibd,hgicd,hiac",
    "chd,bde,agbc,hiad,hgc,hgi,hiad", "chd,bde,agbc,hiad,bdi,cgh,agdb", "bdhe,acad,hiab,agac,hibd", "ab,ab,c->",
    "ab,ab,c->c", "ab,ab,cd,cd->", "ab,ab,cd,cd->ac", "ab,ab,cd,cd->cd", "ab,ab,cd,cd,ef,ef->", "ab,cd,ef->abcdef",
    "ab,cd,ef->acdf", "ab,cd,de->abcde", "ab,cd,de->be", "ab,bcd,cd->abcd", "ab,bcd,cd->abd", "eb,cb,fb->cef",
    "dd,fb,be,cdb->cef", "bca,cdb,dbf,afc->", "dcc,fce,ea,dbf->ab", "fdf,cdd,ccd,afe->ae", "abcd,ad",
    "ed,fcd,ff,bcf->be", "baa,dcf,af,cde->be", "bd,db,eac->ace", "fff,fae,bef,def->abd", "efc,dbc,acf,fd->abe",
    "ab,ab", "ab,ba", "abc,abc", "abc,bac", "abc,cba", "ab,bc", "ab,cb", "ba,bc", "ba,cb", "abcd,cd", "abcd,ab",
    "abcd,cdef", "abcd,cdef->feba", "abcd,efdc", "aab,bc->ac", "ab,bcc->ac", "aab,bcc->ac", "baa,bcc->ac",
    "aab,ccb->ac", "aab,fa,df,ecc->bde", "ecb,fef,bad,ed->ac", "bcf,bbb,fbf,fc->", "bb,ff,be->e",
    "bcb,bb,fc,fff->", "fbb,dfd,fc,fc->", "afd,ba,cc,dc->bf", "adb,bc,fa,cfc->d", "bbd,bda,fc,db->acf",
    "dba,ead,cad->bce", "aef,fbc,dca->bde",)  # fmt: skip

SIZES = dict(zip("abcdefghij", (2, 3, 4, 5, 4, 3, 2, 6, 5, 4), strict=True))
"""The sizes with which opt_einsum tests them."""

MALFORMED = (
    # equation, shapes, the error, and a part of its text
    ("ij,1k", ((2, 3), (3, 4)), RuntimeError, "'1' at index 3"),
    ("i_", ((2, 3),), RuntimeError, "'_' at index 1"),
    ("ij- >ji", ((2, 3),), RuntimeError, "'-' at index 2"),
    ("ij>ji", ((2, 3),), RuntimeError, "'>' at index 2"),
    ("ij->j,i", ((2, 3),), RuntimeError, "',' at index 5"),
    ("ij->i->j", ((2, 3),), RuntimeError, "'-' at index 5"),
    ("i\tj", ((2, 3),), RuntimeError, "at index 1"),
    ("i\u00e9", ((2, 3),), RuntimeError, "at index 1"),
    ("i.j", ((2, 3),), RuntimeError, "'.' at index 1"),
    (". . .", ((2, 3),), RuntimeError, "not part of any ellipsis"),
    ("....", ((2, 3),), RuntimeError, "already found"),
    ("...i...", ((2, 3),), RuntimeError, "already found"),
    ("ij->i..", ((2, 3),), RuntimeError, "the output"),
    ("ij->......", ((2, 3),), RuntimeError, "already found"),
    ("ij->ik", ((2, 3),), RuntimeError, "'k' at index 5"),
    ("ij->jj", ((2, 3),), RuntimeError, "more than once"),
    ("ij,jk", ((2, 3),), RuntimeError, "fewer operands"),
    ("ij", ((2, 3), (3, 4)), RuntimeError, "more operands"),
    ("ij,", ((2, 3),), RuntimeError, "fewer operands"),
    ("ijk", ((2, 3),), RuntimeError, "does not match the number of dimensions"),
    ("i", ((2, 3),), RuntimeError, "does not match the number of dimensions"),
    ("ijk...", ((2, 3),), RuntimeError, "more than the number of dimensions"),
    ("ij,jk", ((2, 3), (4, 4)), RuntimeError, "does not broadcast"),
    ("ii", ((2, 3),), RuntimeError, "repeated"),
    ("ii", ((1, 3),), RuntimeError, "repeated"),
    ("...i,...i", ((2, 3), (4, 3)), RuntimeError, "covered by an ellipsis"),
)
"""What torch refuses too, with an error of this type (for three and more operands it may be a ValueError)."""
